package main

import (
	"io"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestTail(t *testing.T) {
	long := strings.Repeat("x", tailBytes)
	tests := []struct {
		name   string
		writes []string
		want   string
	}{
		{"nothing", nil, ""},
		{"trimmed", []string{"  bad ", "order\n\n"}, "bad order"},
		{"all lines that fit", []string{"one\n", "two\n"}, "one\ntwo"},
		{"cut to whole lines", []string{long, "\nthe", " reason\n"}, "the reason"},
		{"one long line", []string{"a" + long}, long},
		{"one long line, ended", []string{"a" + long + "\n"}, long[1:]},
		{"one long write", []string{long + "\n" + long[:tailBytes-1]}, long[:tailBytes-1]},
		{"no text", []string{"\xff\xfe"}, "\uFFFD"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var tail tail
			for _, s := range tt.writes {
				if n, err := io.WriteString(&tail, s); n != len(s) || err != nil {
					t.Fatal(n, err)
				}
			}
			if got := tail.String(); got != tt.want || !utf8.ValidString(got) {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}
