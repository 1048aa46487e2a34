package consumer

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/internal/broker"
)

// trapError panics when it is read a second time.
type trapError struct{ asked *int }

func (e trapError) Error() string {
	if *e.asked++; *e.asked > 1 {
		panic("a trap")
	}
	return "boom"
}

// TestDeadLettersAndRetriesAreLogged handles one message until it is dead-lettered. The Logger shows each retry and
// each dead letter once, with an Observer and without.
func TestDeadLettersAndRetriesAreLogged(t *testing.T) {
	const retried = `level=DEBUG msg="an attempt failed; the message is retried" outcome=retry queue=orders id=m1 ` +
		`attempt=1 limit=2 cause=failed `
	const died = `level=WARN msg="dead-lettered a message" outcome=dead-letter queue=orders id=m1 `
	for name, tc := range map[string]struct {
		level   slog.Level
		handler Handler
		want    []string
	}{
		"fails twice": {slog.LevelDebug, boom, []string{retried + "error=boom", died +
			"attempt=2 limit=2 cause=failed error=boom"}},
		"fails with an error that panics when read again": {slog.LevelDebug, func(context.Context, amqp.Delivery) error {
			return trapError{new(int)}
		},
			[]string{retried + "error=boom", died + "attempt=2 limit=2 cause=failed error=boom"}},
		"without DEBUG": {slog.LevelInfo, boom, []string{died + "attempt=2 limit=2 cause=failed error=boom"}},
		"rejected": {slog.LevelInfo, func(context.Context, amqp.Delivery) error { return Reject(errBoom) },
			[]string{died + "attempt=1 cause=rejected error=boom"}},
		"waits": {slog.LevelDebug, func(context.Context, amqp.Delivery) error {
			return RetryAfter(errBoom, time.Millisecond)
		},
			[]string{retried + "wait=1ms error=boom", died + "attempt=2 limit=2 cause=failed error=boom"}},
		"handled": {slog.LevelDebug, ok, []string{}},
	} {
		for _, observed := range []bool{false, true} {
			var log bytes.Buffer
			b := newBench()
			b.MaxRetries, b.Backoff = 1, func(int) time.Duration { return 0 }
			b.Logger = withoutTime(&log, tc.level)
			if !observed {
				b.Observer = nil
			}
			for i := range 2 {
				if outcome, err := b.Handle(t.Context(), b.delivery(i > 0), tc.handler); err != nil || outcome != OutcomeRequeue {
					break
				}
			}
			got := strings.FieldsFunc(log.String(), func(r rune) bool { return r == '\n' })
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s, observed: %v (-want +got):\n%s", name, observed, diff)
			}
		}
	}
}

// withoutTime returns a Logger whose lines have no time.
func withoutTime(to *bytes.Buffer, level slog.Level) *slog.Logger {
	return slog.New(slog.NewTextHandler(to, &slog.HandlerOptions{Level: level, ReplaceAttr: func(_ []string,
		a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
}

// TestUnrecordedReasonIsLogged: of a message without an id nothing but the log keeps why it was dead-lettered.
func TestUnrecordedReasonIsLogged(t *testing.T) {
	for name, tc := range map[string]struct {
		id, want    string
		redelivered bool
		handler     Handler
	}{
		"failed":      {"", "boom", false, boom},
		"redelivered": {"", "no id", true, ok},
		"handled":     {"", "", false, ok},
	} {
		var log bytes.Buffer
		b := newBench()
		b.MaxRetries = 3
		b.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))
		d := b.delivery(tc.redelivered)
		d.MessageId, d.Body = tc.id, []byte("secret")
		if _, err := b.Handle(t.Context(), d, tc.handler); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		line := log.String()
		if tc.want == "" {
			if line != "" {
				t.Errorf("%s: %s", name, line)
			}
			continue
		}
		for _, want := range []string{"level=WARN", "queue=orders", "limit=1", broker.Fingerprint("", "", "", d.Body),
			tc.want} {
			if !strings.Contains(line, want) || strings.Contains(line, "secret") {
				t.Errorf("%s: %q lacks %q, or has the body", name, line, want)
			}
		}
	}
}

// harmfulTracer calls functions at the start and the end of an attempt, and returns no context.
type harmfulTracer struct{ start, end func() }

func (h harmfulTracer) AttemptStart(context.Context, amqp.Delivery) context.Context {
	h.start()
	return nil
}
func (h harmfulTracer) AttemptEnd(context.Context, Event) { h.end() }

// TestHarmfulUserFunctions: a function of the user that panics, or ends its goroutine, changes no attempt. The message
// kills no process by that, and the isolation lock is given back.
func TestHarmfulUserFunctions(t *testing.T) {
	none := func() {}
	fails := func(ctx context.Context, _ amqp.Delivery) error {
		if ctx == nil {
			t.Error("the handler has no context")
		}
		return errBoom
	}
	for how, harm := range map[string]func(){"panics": func() { panic("harm") }, "ends its goroutine": exitGoroutine} {
		for name, set := range map[string]func(*Consumer){
			"Backoff":                  func(c *Consumer) { c.Backoff = func(int) time.Duration { harm(); return 0 } },
			"Observer":                 func(c *Consumer) { c.Observer = observe(func(Event) { harm() }) },
			"Tracer, at the start":     func(c *Consumer) { c.Tracer = harmfulTracer{harm, none} },
			"Tracer, at the end":       func(c *Consumer) { c.Tracer = harmfulTracer{none, harm} },
			"Tracer, with no contexts": func(c *Consumer) { c.Tracer = harmfulTracer{none, none} },
		} {
			synctest.Test(t, func(t *testing.T) {
				b := newBench()
				b.isolation = newIsolation()
				b.store.suspect(t, "m1")
				set(b.Consumer)
				if outcome, err := b.Handle(t.Context(), b.delivery(true), fails); outcome != OutcomeRequeue || err != nil {
					t.Errorf("%s %s: %v, %v", name, how, outcome, err)
				}
				b.expect(t, "nack requeue=true", `"" 1+0 marked false`)
				if !b.isolation.lock.TryAcquire(everything) {
					t.Errorf("%s %s: the isolation lock is still held", name, how)
				}
			})
		}
	}
}
