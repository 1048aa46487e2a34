package consumer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/counter"
)

// outcomes is a handler whose nth call returns the nth error, and nil after the last.
type outcomes struct {
	errs     []error
	attempts []Attempt
	at       []time.Time
}

func (o *outcomes) handle(ctx context.Context, _ amqp.Delivery) error {
	a, _ := AttemptFrom(ctx)
	o.attempts, o.at = append(o.attempts, a), append(o.at, time.Now())
	if n := len(o.attempts); n <= len(o.errs) {
		return o.errs[n-1]
	}
	return nil
}

// waits returns the times between the calls.
func (o *outcomes) waits() (out []time.Duration) {
	for i := range len(o.at) - 1 {
		out = append(out, o.at[i+1].Sub(o.at[i]))
	}
	return out
}

func TestNotCounted(t *testing.T) {
	for _, tc := range []struct {
		name        string
		redelivered bool
		retry       RetryMode
		id          string
		errs        []error
		waits       string
		events      string
		settled     string
		record      string
	}{
		{
			"any number of them", false, RetryRequeue, "m1", slicesOf(NotCounted(errBoom), 6), "1s 2s 3s 4s 5s 6s",
			strings.Repeat("not-counted ", 6) + "ack", "ack multiple=false", `"done" 0+0 marked false`,
		},
		{"of a redelivery", true, RetryRequeue, "m1", slicesOf(NotCounted(errBoom), 1), "1s", "not-counted ack",
			"ack multiple=false", `"done" 0+0 marked false`},
		{"a wait that it asks for", false, RetryRequeue, "m1", []error{RetryAfter(NotCounted(errBoom), time.Minute)}, "1m0s",
			"not-counted ack", "ack multiple=false", `"done" 0+0 marked false`},
		{"no wait", false, RetryRequeue, "m1", []error{RetryAfter(NotCounted(errBoom), 0)}, "100ms", "not-counted ack",
			"ack multiple=false", `"done" 0+0 marked false`},
		{"wrapped the other way", false, RetryRequeue, "m1", []error{NotCounted(RetryAfter(errBoom, time.Minute))}, "1m0s",
			"not-counted ack", "ack multiple=false", `"done" 0+0 marked false`},
		{"then a failure", false, RetryRequeue, "m1", []error{NotCounted(errBoom), errBoom}, "1s",
			"not-counted retry requeue", "nack requeue=true", `"" 1+0 marked false`},
		{"between failures", false, RetryInPlace, "m1", []error{errBoom, NotCounted(errBoom), errBoom}, "1s 2s 2s",
			"retry not-counted retry ack", "ack multiple=false", `"done" 2+0 marked false`},
		{"without an id", false, RetryRequeue, "", slicesOf(NotCounted(errBoom), 3), "1s 2s 3s",
			"not-counted not-counted not-counted ack", "ack multiple=false", "none"},
		{"without an id, then a failure", false, RetryRequeue, "", []error{NotCounted(errBoom), errBoom}, "1s",
			"not-counted dead-letter", "nack requeue=false", "none"},
		{"and rejected", false, RetryRequeue, "m1", []error{NotCounted(Reject(errBoom))}, "", "dead-letter",
			"nack requeue=false", `"exhausted" 1+0 marked false`},
		{"of nothing", false, RetryRequeue, "m1", []error{NotCounted(nil)}, "", "ack", "ack multiple=false", "none"},
		{"longer than a delivery may be held", false, RetryRequeue, "m1", []error{RetryAfter(NotCounted(errBoom), time.Hour)},
			"", "not-counted requeue", "nack requeue=true", "none"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, o := newBench(), &outcomes{errs: tc.errs}
				b.Retry = tc.retry
				d := b.delivery(tc.redelivered)
				d.MessageId = tc.id
				need(t, errOf(b.Handle(t.Context(), d, o.handle)))
				if got := spell(o.waits()); got != tc.waits {
					t.Errorf("waited %s, want %s", got, tc.waits)
				}
				if got := strings.Join(*b.events, " "); got != tc.events {
					t.Errorf("events %s, want %s", got, tc.events)
				}
				b.expect(t, tc.settled, tc.record)
			})
		})
	}
}

func slicesOf(err error, n int) (out []error) {
	for range n {
		out = append(out, err)
	}
	return out
}

func spell(waits []time.Duration) string {
	var out []string
	for _, w := range waits {
		out = append(out, w.String())
	}
	return strings.Join(out, " ")
}

// TestCrashed: a first delivery or a redelivery makes a suspect, whose isolated attempts are counted as crashes. The
// last one is dead-lettered without another wait.
func TestCrashed(t *testing.T) {
	for _, redelivered := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			b, o := newBench(), &outcomes{errs: slicesOf(Crashed(errBoom), 100)}
			b.isolation, b.Retry = newIsolation(), RetryInPlace
			began := time.Now()
			outcome, err := b.Handle(t.Context(), b.delivery(redelivered), o.handle)
			if last := o.at[len(o.at)-1]; !last.Equal(time.Now()) {
				t.Errorf("dead-lettered %v after the last attempt began, %v after the first", time.Since(last), last.Sub(began))
			}
			got := ""
			for _, a := range o.attempts {
				got += map[bool]string{true: "i", false: "n"}[a.Isolated]
			}
			if outcome != OutcomeDeadLetter || err != nil || got != "niiii" {
				t.Errorf("redelivered %v: %v, %v; attempts isolated: %s, want niiii", redelivered, outcome, err, got)
			}
			b.expect(t, "nack requeue=false", `"exhausted" 4+0 marked false`)
			records, _ := b.store.Get(t.Context(), "/", "orders", "m1")
			if records[0].Cause != counter.CauseCrashed || records[0].Reason != errBoom.Error() {
				t.Errorf("the cause is %s: %s", records[0].Cause, records[0].Reason)
			}
			if b.isolation.gate.opened() != nil || !b.isolation.undecided.TryAcquire(1) ||
				!b.isolation.lock.TryAcquire(everything) {
				t.Error("the isolation lock or the gate is still held")
			}
		})
	}
}

// TestCrashEvents: they say whether the attempt is counted, and why the next one is isolated. The record has a counted
// crash and its reason before the next attempt begins, also if this consumer never begins it.
func TestCrashEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, o := newBench(), &outcomes{errs: slicesOf(Crashed(errBoom), 2)}
		b.isolation = newIsolation()
		var got []string
		b.Observer = observe(func(e Event) { got = append(got, fmt.Sprint(e.Outcome, " ", e.Cause, " ", e.Err)) })
		outcome, err := b.Handle(t.Context(), b.delivery(false), o.handle)
		want := []string{"crash  " + errBoom.Error(), "isolate  " + errSuspect.Error(), "retry crashed " + errBoom.Error(),
			"requeue  <nil>"}
		if outcome != OutcomeRequeue || err != nil || !slices.Equal(got, want) {
			t.Errorf("%v, %v: %q, want %q", outcome, err, got, want)
		}
		records, _ := b.store.Get(t.Context(), "/", "orders", "m1")
		r := records[0]
		if r.Failures != 1 || r.Cause != counter.CauseCrashed || r.Reason != errBoom.Error() || r.OpenToken != "" ||
			!r.Suspect {
			t.Errorf("the record is %+v", r)
		}
	})
}

// TestCrashedBesideAnother: the next attempt waits for the handler that runs beside it, and a message without an id is
// not tried again.
func TestCrashedBesideAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		crashes := 0
		var g *gated
		g = newGated(t, Consumer{Concurrency: 2, Handler: func(ctx context.Context, d amqp.Delivery) error {
			g.ran <- d.MessageId
			switch {
			case d.MessageId == "slow":
				<-release
			case d.MessageId == "", crashes < 1:
				crashes++
				return Crashed(errBoom)
			}
			if a, _ := AttemptFrom(ctx); d.MessageId == "suspect" && !a.Isolated {
				t.Error("it is not isolated")
			}
			return nil
		}})
		g.deliver("slow", false)
		g.deliver("suspect", false)
		if got := g.handled(); len(got) != len("slow suspect ") {
			t.Errorf("%q ran", got)
		}
		time.Sleep(time.Minute)
		if got := g.handled(); got != "" {
			t.Errorf("%q ran beside another", got)
		}
		close(release)
		time.Sleep(time.Second)
		if got := g.handled(); got != "suspect " {
			t.Errorf("%q ran", got)
		}
		g.deliver("", false)
		time.Sleep(time.Second)
		if got := g.handled(); got != " " || !strings.Contains(g.acks.String(), "nack requeue=false") {
			t.Errorf("%q ran; settled %s", got, g.acks)
		}
	})
}

// TestHeldForTooLong: an ordered session ends with the reason of the delivery that it held.
func TestHeldForTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGated(t, Consumer{Ordered: true, Retry: RetryInPlace, Handler: func(context.Context, amqp.Delivery) error {
			return NotCounted(errBoom)
		}},
			func(c *Consumer) { c.Retry = RetryInPlace })
		g.deliver("m1", false)
		time.Sleep(DefaultConsumerTimeout/2 + time.Minute)
		select {
		case err := <-g.ended:
			if !errors.Is(err, errBoom) || !strings.Contains(err.Error(), "not counted") {
				t.Errorf("the session ended with %v", err)
			}
		default:
			t.Error("the session goes on")
		}
		if g.acks.String() != "" {
			t.Errorf("settled: %s", g.acks)
		}
	})
}
