package main

import (
	"context"
	"strings"
	"testing"

	"github.com/strikesmq/strikes/cmd/strikes/internal/jsonl"
)

// FuzzInput: a file of any content is read to its end, or to the line that is wrong, which the error names.
func FuzzInput(f *testing.F) {
	for _, seed := range []string{
		"", "\n", "\n\n\n", "{\"body\":\"a\"}\n{\"body\":\"b\"}", "{\"body\":\"a\"}\r\n\r\n",
		"\xef\xbb\xbf{\"body\":\"a\"}\n", "{}\n", "\x00\n\xff",
		"{\"body\":\"a\",\"headers\":{\"\":{\"\":{}}}}\n[]\n", strings.Repeat("{\"a\":", 300),
		"{\"body\":\"\\ud800\",\"id\":\"\\u0000\"}",
	} {
		f.Add([]byte(seed), true)
		f.Add([]byte(seed), false)
	}
	f.Fuzz(func(t *testing.T, input []byte, ndjson bool) {
		lines := strings.Count(string(input), "\n")
		if len(input) > 0 && !strings.HasSuffix(string(input), "\n") {
			lines++
		}
		n, last := 0, 0
		r := reader{stdin: strings.NewReader(string(input)), parse: jsonl.ParseText, blank: true, put: func(_ context.Context,
			e entry) error {
			n, last = n+1, e.line
			return nil
		}}
		if ndjson {
			r.parse, r.blank = jsonl.ParseMessage, false
		}
		err := r.read(t.Context(), nil)
		switch {
		case last > lines || n > lines || !ndjson && (err != nil || n != lines):
			t.Errorf("%d messages of %d lines, the last of line %d: %v", n, lines, last, err)
		case err != nil && !strings.HasPrefix(err.Error(), "stdin:"):
			t.Errorf("the error names no line: %v", err)
		}
	})
}
