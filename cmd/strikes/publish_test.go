package main

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/jsonl"
	"github.com/strikesmq/strikes/cmd/strikes/internal/term"
	"github.com/strikesmq/strikes/internal/proctest"
	"github.com/strikesmq/strikes/internal/servers"
	"github.com/strikesmq/strikes/internal/servertest"
	"github.com/strikesmq/strikes/publisher"
)

// TestRefusedMessageIsNamed: the broker ends the channel over the second of three messages, which are sent together.
func TestRefusedMessageIsNamed(t *testing.T) {
	failed := func(err error) error { return &publisher.Error{Err: err, Code: amqp.PreconditionFailed} }
	lost, p := failed(publisher.ErrConnectionLost), publish{progress: term.Progress(io.Discard)}
	entries := []entry{{source: "f", line: 1}, {source: "f", line: 2}, {source: "f", line: 3}}
	err := p.count(t.Context(), entries, make([]publisher.Message, 3), &publisher.BatchError{Errs: []error{lost,
		failed(publisher.ErrRefused), lost}})
	if code := cli.ExitCode(err); !strings.HasPrefix(err.Error(), "f:2: publisher: refused") || code != cli.ExitMisuse {
		t.Errorf("exit code %d: %v", code, err)
	}
}

// TestPublishDuringAnAlarm ends soon, and says why: a broker that is short of memory reads nothing from who publishes.
func TestPublishDuringAnAlarm(t *testing.T) {
	t.Parallel()
	broker := servertest.Broker(t, servers.RabbitMQOptions{Config: "vm_memory_high_watermark.absolute = 1MB\n"})
	env := []string{"AMQP_URL=" + broker.URL}
	mustOutput(t, with(strikesOn(t, "q", "declare", "q"), env...))
	for _, interrupt := range []bool{false, true} {
		timeout := "5s" // the broker says within it that it blocks
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
		if took, code := time.Since(began), cmd.ProcessState.ExitCode(); took > 20*time.Second || code != want ||
			!strings.Contains(stderr.String(), "the broker blocks publishers") {
			t.Errorf("interrupted %v: exit code %d after %v\n%s%s", interrupt, code, took, stdout, stderr)
		}
	}
}

func numbered(n, size int) entry {
	return entry{line: n, msg: amqp.Publishing{Body: make([]byte, size)}}
}

func TestIntakeOrderAndEnd(t *testing.T) {
	in, cause := newIntake(), errors.New("bad line")
	for n := range 3 {
		need(t, in.put(t.Context(), numbered(n, 1)))
	}
	in.end(cause)
	batch, err := in.take(t.Context())
	if len(batch) != 3 || err != nil || batch[0].line != 0 || batch[2].line != 2 {
		t.Fatalf("%v, %v", batch, err)
	}
	if batch, err = in.take(t.Context()); batch != nil || !errors.Is(err, cause) {
		t.Errorf("%v, %v: the reader's error follows what was read before it", batch, err)
	}
}

// TestIntakeEndsWithItsContext: an interrupted publish begins no other batch, however fast the input comes.
func TestIntakeEndsWithItsContext(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	in := newIntake()
	for n := range 50 {
		need(t, in.put(t.Context(), numbered(n, 1)))
		if batch, err := in.take(ctx); batch != nil || !errors.Is(err, context.Canceled) {
			t.Fatalf("%d taken, %v", len(batch), err)
		}
	}
}

func TestIntakeIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := newIntake()
		put := 0
		go func() {
			for {
				if in.put(t.Context(), numbered(put, 1)) != nil {
					return
				}
				put++
			}
		}()
		synctest.Wait()
		if put != intakeBytes/(entryBytes+1) {
			t.Errorf("%d entries wait", put)
		}
		batch, err := in.take(t.Context())
		if len(batch) != put || err != nil {
			t.Errorf("%d taken of %d, %v", len(batch), put, err)
		}
		in.done(batch)
		synctest.Wait()
		if put != 2*len(batch) {
			t.Errorf("%d put after %d were done with", put, len(batch))
		}
	})
}

func TestIntakeTakesWhatIsTooLarge(t *testing.T) {
	in := newIntake()
	need(t, in.put(t.Context(), numbered(1, 2*intakeBytes)))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := in.put(ctx, numbered(2, 1)); !errors.Is(err, context.Canceled) {
		t.Errorf("a second one fits beside it: %v", err)
	}
	if _, err := newIntake().take(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
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
