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
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/jsonl"
	"github.com/strikesmq/strikes/internal/printable"
	"github.com/strikesmq/strikes/internal/proctest"
	"github.com/strikesmq/strikes/internal/servers"
	"github.com/strikesmq/strikes/internal/servertest"
)

// TestPublishDuringAnAlarm ends soon, and says why: a broker that is short of memory reads nothing from who publishes.
func TestPublishDuringAnAlarm(t *testing.T) {
	t.Parallel()
	broker := servertest.Broker(t, servers.RabbitMQOptions{Config: "vm_memory_high_watermark.absolute = 1MB\n"})
	env := []string{"AMQP_URL=" + broker.URL}
	mustOutput(t, with(strikesOn(t, "q", "declare", "q"), env...))
	for _, interrupt := range []bool{false, true} {
		timeout := "1s"
		if interrupt {
			timeout = "1m"
		}
		cmd := with(strikesOn(t, "q", "publish", "--timeout", timeout, "q"), env...)
		cmd.Stdin = strings.NewReader("an order\n")
		stdout, stderr := started(t, cmd)
		proctest.Eventually(t, time.Minute, "it says that the broker blocks", func() bool {
			return strings.Contains(stderr.String(), "blocked by the broker")
		})
		began, want := time.Now(), cli.ExitUnreachable
		if interrupt {
			want = cli.ExitInterrupted
			need(t, cmd.Process.Signal(os.Interrupt))
		}
		_ = cmd.Wait()
		if took, code := time.Since(began), cmd.ProcessState.ExitCode(); took > 8*time.Second || code != want ||
			!strings.Contains(stderr.String(), "the broker blocks publishers") {
			t.Errorf("interrupted %v: exit code %d after %v\n%s%s", interrupt, code, took, stdout, stderr)
		}
	}
}

// bodies reads files, or stdin, and returns the bodies of the messages.
func bodies(t *testing.T, r reader, stdin string, files ...string) ([]string, error) {
	t.Helper()
	var got []string
	r.stdin = strings.NewReader(stdin)
	r.put = func(_ context.Context, batch []entry) error {
		for _, e := range batch {
			got = append(got, e.String()+" "+string(e.msg.Body))
		}
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
	got, err := bodies(t, reader{parse: jsonl.ParseMessage}, "{\"body\":\"a\"}\n\n{\"body\":1}\n{\"body\":\"c\"}\n")
	if len(got) != 1 || err == nil || !strings.HasPrefix(err.Error(), "stdin:3: ") {
		t.Errorf("%q, %v", got, err)
	}
}

// TestReaderBatches: the whole lines that are there are handed on together, in bounded batches, before the reader waits
// for more.
func TestReaderBatches(t *testing.T) {
	from, to := io.Pipe()
	batches := make(chan []entry)
	r := reader{stdin: from, parse: jsonl.ParseText, put: func(_ context.Context, batch []entry) error {
		batches <- batch
		return nil
	}}
	go func() {
		if err := r.read(t.Context(), nil); err != nil {
			t.Error(err)
		}
		close(batches)
	}()
	large := strings.Repeat("x", batchBytes)
	for _, tt := range []struct {
		text string
		want []int // the sizes of the batches
	}{
		{"a\nb\nhalf", []int{2}}, {" a line\n", []int{1}}, {strings.Repeat("c\n", batchEntries+1), []int{batchEntries, 1}},
		{large + "\n" + large + "\nd\n", []int{1, 1, 1}},
	} {
		go io.WriteString(to, tt.text)
		for _, want := range tt.want {
			if batch := <-batches; len(batch) != want {
				t.Errorf("a batch of %d after %.10q, want %d", len(batch), tt.text, want)
			}
		}
	}
	_ = to.Close()
	if batch, more := <-batches; more {
		t.Errorf("%d more", len(batch))
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
		r := reader{stdin: strings.NewReader(string(input)), parse: jsonl.ParseText, blank: true}
		r.put = func(_ context.Context, batch []entry) error {
			n, last = n+len(batch), batch[len(batch)-1].line
			return nil
		}
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
