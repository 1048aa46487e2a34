package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/strikesmq/strikes/cmd/strikes/internal/jsonl"
	"github.com/strikesmq/strikes/internal/printable"
)

// bodies reads files, or stdin, and returns the bodies of the messages.
func bodies(t *testing.T, r reader, stdin string, files ...string) ([]string, error) {
	t.Helper()
	var got []string
	r.stdin = strings.NewReader(stdin)
	r.put = func(_ context.Context, e entry) error {
		got = append(got, e.String()+" "+string(e.msg.Body))
		return nil
	}
	err := r.read(t.Context(), files)
	return got, err
}

func TestReaderLines(t *testing.T) {
	file := filepath.Join(t.TempDir(), "in")
	need(t, os.WriteFile(file, []byte("f1\nf2"), 0o600))
	plain := reader{parse: jsonl.ParseText, blank: true}
	tests := []struct {
		name  string
		stdin string
		files []string
		want  []string
	}{
		{"nothing", "", nil, nil},
		{"lines", "a\nb\n", nil, []string{"stdin:1 a", "stdin:2 b"}},
		{"no newline at the end", "a\nb", nil, []string{"stdin:1 a", "stdin:2 b"}},
		{"empty lines are messages", "\na\n\n", nil, []string{"stdin:1 ", "stdin:2 a", "stdin:3 "}},
		{"only the newline is cut", " a \r\n", nil, []string{"stdin:1  a \r"}},
		{"files and stdin", "s\n", []string{file, "-"}, []string{printable.Name(file) + ":1 f1",
			printable.Name(file) + ":2 f2", "stdin:1 s"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := bodies(t, plain, tt.stdin, tt.files...)
			if diff := cmp.Diff(tt.want, got); diff != "" || err != nil {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
}

func TestReaderNamesTheLine(t *testing.T) {
	got, err := bodies(t, reader{parse: jsonl.ParseMessage}, "{\"body\":\"a\"}\r\n\r\n{\"body\":1}\n{\"body\":\"c\"}\n")
	if len(got) != 1 || err == nil || !strings.HasPrefix(err.Error(), "stdin:3: ") {
		t.Errorf("%q, %v", got, err)
	}
}

func TestReaderMissingFile(t *testing.T) {
	if _, err := bodies(t, reader{parse: jsonl.ParseText}, "", filepath.Join(t.TempDir(), "none")); !errors.Is(err,
		os.ErrNotExist) {
		t.Error(err)
	}
}

// ones is an endless line.
type ones struct{}

func (ones) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = '1'
	}
	return len(p), nil
}

func TestReadLineLong(t *testing.T) {
	long := strings.Repeat("x", 3<<20)
	r := bufio.NewReader(strings.NewReader(long + "\nnext"))
	for _, want := range []string{long, "next"} {
		if line, err := readLine(r, maxLine); string(line) != want || err != nil {
			t.Errorf("%d bytes, %v, want %d", len(line), err, len(want))
		}
	}
	if _, err := readLine(r, maxLine); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
	if _, err := readLine(bufio.NewReader(ones{}), 1<<20); err == nil || !strings.Contains(err.Error(),
		"longer than 1048576") {
		t.Errorf("an endless line: %v", err)
	}
}
