package counter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"github.com/strikesmq/strikes/counter/rules"
	"github.com/strikesmq/strikes/internal/servertest"
)

// TestBreakerModel takes random steps of consumers with a breaker, on the rules and on the scripts at the same times to
// the millisecond. Both must give the same replies, and keep the same records and the same breaker.
// For a long run: go test ./counter -run BreakerModel -rapid.checks=1000 -rapid.steps=60.
func TestBreakerModel(t *testing.T) {
	servertest.Long(t)
	mini := miniredis.RunT(t)
	t.Run("miniredis", func(t *testing.T) { breakerModel(t, dialTest(t, "redis://"+mini.Addr()), mini.FastForward) })
	for _, s := range stores(t) {
		if s.Counter.rdb != nil && s.name != "miniredis" {
			t.Run(s.name, func(t *testing.T) { breakerModel(t, s.Counter, nil) })
		}
	}
}

// breakerModel runs the model on a server. forward lets TTLs elapse; nil: the model removes the expired keys.
func breakerModel(t *testing.T, on *Counter, forward func(time.Duration)) {
	run := 0
	rapid.Check(t, func(t *rapid.T) {
		run++
		c := New(on.rdb, &Options{Prefix: fmt.Sprint(on.opts.Prefix, ":", run)})
		w := &breakerWorld{c: c, clock: on.opts.Prefix + ":clock", now: time.Now().Truncate(time.Millisecond).UTC(),
			queue: rules.Queue{TTL: c.TTL()}, records: map[string]Record{}, expire: map[string]time.Duration{}}
		w.setClock(t)
		defer func() {
			c.rdb.Del(context.Background(), c.rdb.Keys(context.Background(), c.opts.Prefix+":{*").Val()...)
		}()
		t.Repeat(map[string]func(*rapid.T){
			"fail": w.fail, "fail again": w.again, "start": w.start, "begun": w.begun, "end": w.end, "ask": w.ask, "": w.check,
			"later": func(t *rapid.T) {
				ms := rapid.SampledFrom([]int64{1, 1, 10, 500, 1000, 1999, 2000, 3000, 30000, 600000, -30000}).Draw(t, "ms")
				w.now = w.now.Add(time.Duration(ms) * time.Millisecond)
				w.setClock(t)
				if ms > 0 {
					w.passed += time.Duration(ms) * time.Millisecond
					w.forward(t, forward, time.Duration(ms)*time.Millisecond)
				}
			},
		})
	})
}

// breakerWorld is one queue, on the rules and on the scripts.
type breakerWorld struct {
	c       *Counter
	clock   string // key of the time that the scripts see
	now     time.Time
	queue   rules.Queue
	records map[string]Record
	passed  time.Duration            // since the beginning, though the clock may be set back
	expire  map[string]time.Duration // when the records do, of passed
	last    func(*rapid.T)           // the last FAIL
}

func (w *breakerWorld) key(name string) string { return w.c.opts.queueKey("/", "q") + name }

func (w *breakerWorld) do(t *rapid.T, args ...any) any {
	reply, err := w.c.rdb.Do(context.Background(), args...).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		t.Fatal(err)
	}
	return reply
}

// setClock sets the time that the scripts see.
func (w *breakerWorld) setClock(t *rapid.T) {
	w.do(t, "del", w.clock)
	w.do(t, "rpush", w.clock, w.now.Unix(), w.now.Nanosecond()/1000)
}

// atClock is a step whose script reads that time in place of the server's.
func (w *breakerWorld) atClock(of step) step {
	source := strings.Replace(of.source, "call('TIME')", "call('LRANGE', '"+w.clock+"', 0, 1)", 1)
	return step{of.name, source, redis.NewScript(source).Hash()}
}

func (w *breakerWorld) forward(t *rapid.T, forward func(time.Duration), by time.Duration) {
	if forward != nil {
		forward(by)
		return
	}
	for id, at := range w.expire {
		if at <= w.passed {
			w.do(t, "del", w.c.opts.keys(w.records[id].Message).record)
		}
	}
}

var (
	fewIDs    = rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f"})
	successes = rapid.SampledFrom([]time.Duration{-1, -1, -1, 0, time.Millisecond, 20 * time.Millisecond, time.Second,
		2500 * time.Millisecond, time.Minute})
	breakers   = rapid.SampledFrom([]int{2, 3, 3, 3, 4})
	patiences  = rapid.SampledFrom([]time.Duration{0, 0, 20 * time.Second, 11 * time.Minute})
	troubles   = rapid.SampledFrom([]string{"", "10.0.0.7:5432: refused", "10.0.0.8:5432: refused", "\r\n\nno\tsuch\xff"})
	failCauses = rapid.SampledFrom([]Cause{CauseFailed, CauseFailed, CauseFailed, CauseTimedOut, CauseRejected,
		CauseNotCounted})
)

// attempt is one with the progress of its process, as the rules expect it; the scripts get ages.
func (w *breakerWorld) attempt(t *rapid.T) (a Attempt) {
	at := func(name string) time.Time {
		if age := successes.Draw(t, name); age >= 0 {
			return w.now.Add(-age)
		}
		return time.Time{}
	}
	a = Attempt{Message: Message{VHost: "/", Queue: "q", ID: fewIDs.Draw(t, "id")}, Consumer: "c",
		Token: tokens.Draw(t, "token"), First: rapid.Bool().Draw(t, "first"), Received: w.now,
		MaxAge:     rapid.SampledFrom([]time.Duration{0, 0, 0, time.Minute}).Draw(t, "max age"),
		HoldsQueue: rapid.IntRange(0, 4).Draw(t, "holds") == 0}
	a.Progress = rules.Progress{Breaker: breakers.Draw(t, "breaker"), Patience: patiences.Draw(t, "patience"),
		Began: at("began"), Ended: at("ended"), Attempt: at("attempt"), Failing: rapid.IntRange(0, 5).Draw(t, "failing") == 0}
	return a
}

// take takes a step on both sides.
func (w *breakerWorld) take(t *rapid.T, a Attempt, byRules func(*Record, Attempt) (Reply, time.Duration),
	of step, limit int, args ...any) {
	r, ok := w.records[a.ID]
	if r.TTL = w.expire[a.ID] - w.passed; !ok || r.TTL <= 0 {
		r = Record{Message: a.Message}
	}
	r.Tokens, r.History = slices.Clone(r.Tokens), slices.Clone(r.History) // the rules change them
	ruled := a
	ruled.Received = w.now // the scripts get no age
	if ruled.Progress.Attempt.IsZero() {
		ruled.Progress.Attempt = w.now
	}
	want, keep := byRules(&r, ruled)
	if keep > 0 {
		w.records[a.ID], w.expire[a.ID] = r, w.passed+keep
	}

	a.Received = time.Time{}
	raw, err := w.c.run(context.Background(), w.atClock(of), a.Message, stepArgs(of, a, limit, w.now, args))
	need(t, err)
	got, err := parseReply(raw)
	need(t, err)
	if of == stepEnd {
		got, want = Reply{}, Reply{}
	}
	tolerant := cmp.Options{cmpopts.IgnoreFields(Reply{}, "Fence")}
	if diff := cmp.Diff(want, got, tolerant); diff != "" {
		t.Fatalf("reply: -rules +script:\n%s", diff)
	}
}

func (w *breakerWorld) fail(t *rapid.T) {
	a := w.attempt(t)
	f := Failure{Cause: failCauses.Draw(t, "cause"), Reason: troubles.Draw(t, "reason"),
		Wait:  rapid.SampledFrom([]time.Duration{0, 0, time.Second}).Draw(t, "wait"),
		Limit: rapid.IntRange(1, 3).Draw(t, "limit")}
	w.last = func(t *rapid.T) {
		for _, at := range []*time.Time{&a.Progress.Began, &a.Progress.Ended, &a.Progress.Attempt} {
			if at.After(w.now) { // the clock was set back; ages do not see that
				*at = w.now
			}
		}
		w.take(t, a, func(r *Record, a Attempt) (Reply, time.Duration) { return rules.Fail(r, &w.queue, a, f, w.now) },
			stepFail, f.Limit, rules.CeilMillis(f.Wait), string(f.Cause), f.Reason, 0, rules.CeilMillis(a.MaxAge), 0)
	}
	w.last(t)
}

// again repeats the last FAIL, perhaps across a change of the breaker.
func (w *breakerWorld) again(t *rapid.T) {
	if w.last == nil {
		t.Skip("there was none")
	}
	w.last(t)
}

func (w *breakerWorld) start(t *rapid.T) {
	a, limit := w.attempt(t), rapid.IntRange(1, 3).Draw(t, "limit")
	mode := modes.Draw(t, "mode")
	w.take(t, a, func(r *Record, a Attempt) (Reply, time.Duration) {
		return rules.Start(r, &w.queue, a, mode, limit, w.now)
	}, stepStart, limit, mode.String(), a.Fence, rules.CeilMillis(a.MaxAge))
}

// begun opens an isolated attempt, so that a later START counts it as a crash.
func (w *breakerWorld) begun(t *rapid.T) {
	a := w.attempt(t)
	if open := w.records[a.ID].OpenToken; open != "" {
		a.Token = open
	}
	w.take(t, a, func(r *Record, a Attempt) (Reply, time.Duration) {
		return rules.Begun(r, &w.queue, a, w.now)
	}, stepBegun, 0)
}

func (w *breakerWorld) end(t *rapid.T) {
	a, succeeded := w.attempt(t), rapid.Bool().Draw(t, "succeeded")
	w.take(t, a, func(r *Record, a Attempt) (Reply, time.Duration) {
		return rules.End(r, &w.queue, a, succeeded, w.now)
	}, stepEnd, 0, rules.Flag(succeeded), rules.KeepDone.Milliseconds())
}

// ask reads the breaker, as a process does once a second, and as an operator does.
func (w *breakerWorld) ask(t *rapid.T) {
	p := w.attempt(t).Progress
	change := func(b *Breaker) bool {
		changed := b.Learn(p, w.now)
		return b.Permit(w.now) || changed
	}
	if rapid.IntRange(0, 5).Draw(t, "operator") == 0 {
		d := rapid.SampledFrom([]time.Duration{0, 10 * time.Second, rules.LongestCount}).Draw(t, "count")
		change = func(b *Breaker) bool { return b.Resume(d, w.now) }
	}
	b := w.queue.Breaker
	if change(&b) {
		w.queue.Breaker = b
		w.do(t, "set", w.key("breaker"), rules.EncodeBreaker(b))
	}
}

// check compares the breakers and the records.
func (w *breakerWorld) check(t *rapid.T) {
	text, _ := w.do(t, "get", w.key("breaker")).(string)
	got, ok := rules.DecodeBreaker(text)
	if text != "" && (!ok || rules.EncodeBreaker(got) != text) {
		t.Fatalf("the script wrote %q, and Go %q", text, rules.EncodeBreaker(got))
	}
	if diff := cmp.Diff(w.queue.Breaker, got, cmpopts.EquateEmpty()); diff != "" {
		t.Fatalf("breaker: -rules +script:\n%s", diff)
	}
	for id, r := range w.records {
		text, is := w.do(t, "get", w.c.opts.keys(r.Message).record).(string)
		if expired := w.expire[id] <= w.passed; expired || !is {
			if expired == is {
				t.Fatalf("record of %s: expired: %v", id, expired)
			}
			continue
		}
		got, ok := rules.Decode(text)
		got.VHost, got.Queue, got.Listed, r.TTL = "/", "q", time.Time{}, 0
		if diff := cmp.Diff(r, got, cmpopts.EquateEmpty(), cmpopts.IgnoreFields(Record{}, "Fence")); diff != "" || !ok {
			t.Fatalf("record of %s: -rules +script:\n%s", id, diff)
		}
	}
}
