package main

import (
	"errors"
	"strings"
	"testing"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/render"
	"github.com/strikesmq/strikes/deadletter"
)

// TestForceIsSaidOnce: an error mentions --force once.
func TestForceIsSaidOnce(t *testing.T) {
	q := &dlq{dead: deadletter.Queue{Name: "q.dlq"}, unseen: 1}
	none := func(func(*deadletter.Message, error) bool) {}
	var out strings.Builder
	err := new(deadList).printed(q, deadletter.Filter{IDs: []string{"a"}}, 0, none, render.DeadLetters(&out, false))
	for name, err := range map[string]error{"list": err,
		"show": q.nothing(seek(deadletter.Filter{IDs: []string{"a"}}))} {
		if !errors.Is(err, deadletter.ErrUnsafe) || strings.Count(err.Error(), "--force") != 1 ||
			cli.ExitCode(err) != cli.ExitMisuse {
			t.Errorf("%s: exit code %d, %v", name, cli.ExitCode(err), err)
		}
	}
}
