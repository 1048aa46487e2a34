package main

import (
	"regexp"
	"testing"

	"github.com/strikesmq/strikes/cmd/strikes/internal/jsonl"
)

func TestPublishHelpNamesTheTags(t *testing.T) {
	help := (&app{}).publishCommand().Long
	for _, tag := range jsonl.Tags() {
		if !regexp.MustCompile(regexp.QuoteMeta(tag) + `\b`).MatchString(help) {
			t.Errorf("publish --help does not mention %s", tag)
		}
	}
}
