package counter

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/strikesmq/strikes/counter/rules"
	"github.com/strikesmq/strikes/internal/servertest"
)

// told is a history in short.
func told(r Record) (out []string) {
	for _, n := range r.History {
		out = append(out, fmt.Sprintf("%d %s %v %s: %s", n.Number, n.Cause, n.Ran, n.Consumer, n.Reason))
	}
	return out
}

func TestHistory(t *testing.T) {
	m := Message{VHost: "/", Queue: "orders", ID: "1"}
	crash := "the process died while this message ran isolated"
	for _, s := range stores(t) {
		fail := func(token, consumer, reason string, ran time.Duration) {
			t.Helper()
			a := Attempt{Message: m, Token: token, Consumer: consumer}
			needOf(t, s.name, errOf(s.Fail(t.Context(), a, Failure{Limit: 100, Reason: reason, Ran: ran,
				Cause: CausePanicked})))
		}
		start := func(token, consumer string, mode rules.Mode) {
			t.Helper()
			a := Attempt{Message: m, Token: token, Consumer: consumer}
			needOf(t, s.name, errOf(s.Start(t.Context(), a, mode, 100)))
			if mode != rules.ModeIsolated {
				return
			}
			if reply, err := s.Begun(t.Context(), a); err != nil || reply.Code != rules.ReplyBegun {
				t.Fatalf("%s: %+v, %v", s.name, reply, err)
			}
		}
		want := func(when string, history ...string) {
			t.Helper()
			if diff := cmp.Diff(history, told(s.look(t, m).Record)); diff != "" {
				t.Errorf("%s: %s: -want +got:\n%s", s.name, when, diff)
			}
		}
		fail("a", "web-1", "no stock\nstack", time.Second)
		want("one", "1 panicked 1s web-1: no stock")
		fail("b", "web-1", "no stock\nanother stack", 2*time.Second)
		fail("c", "web-2", "down\tfor\x00 a while", 0)
		fail("c", "web-2", "repeated", 0) // its reply was lost
		three := []string{"1 panicked 1s web-1: no stock", "2 panicked 2s web-1: no stock",
			"3 panicked 0s web-2: down for\x00 a while"}
		want("three", three...)
		start("d", "web-3", rules.ModeIsolated)
		start("e", "web-4", rules.ModeShared) // a suspect: the consumer stays that of the open attempt
		start("e", "web-4", rules.ModeIsolated)
		want("a crash", append(three, "4 crashed 0s web-3: "+crash)...)
		fail("e", "web-4", "down\tfor\x00 a while", time.Second)
		want("after it", append(three, "4 crashed 0s web-3: "+crash, "5 panicked 1s web-4: down for\x00 a while")...)
		need(t, s.End(t.Context(), attempt(m, "d"), false))
		want("it was none", append(three, "4 panicked 1s web-4: down for\x00 a while")...)
		start("f", "web-5", rules.ModeIsolated)
		start("g", "web-6", rules.ModeIsolated)
		fail("f", "web-5", "it was not dead", time.Minute)
		want("the crash was a failure", append(three, "4 panicked 1s web-4: down for\x00 a while",
			"5 panicked 1m0s web-5: it was not dead")...)
		seen := Failure{Cause: CauseCrashed, Reason: "the endpoint ended\tthe connection\nhere"}
		for range 2 { // a repeated FAIL changes nothing
			need(t, errOf(s.Fail(t.Context(), Attempt{Message: m, Token: "seen", Consumer: "web-5"}, seen)))
		}
		if got := s.look(t, m); got.Reason != seen.Reason || got.Cause != CauseCrashed || !got.Suspect {
			t.Errorf("%s: a crash that the consumer saw: %s %q, suspect %v", s.name, got.Cause, got.Reason, got.Suspect)
		}
		if h := told(s.look(t, m).Record); h[len(h)-1] != "6 crashed 0s web-5: the endpoint ended the connection" {
			t.Errorf("%s: %q", s.name, h)
		}
		need(t, s.Reset(t.Context(), m, Note{Why: "fixed"}))
		want("a reset")
		for i := range 2 * rules.MaxHistory {
			fail(fmt.Sprint("h", i), "web-7", fmt.Sprint(i, strings.Repeat("\u00e9", 200)), time.Millisecond)
		}
		got := s.look(t, m).History
		if first, last := got[0], got[len(got)-1]; len(got) != rules.MaxHistory || first.Number != rules.MaxHistory+1 ||
			last.Number != 2*rules.MaxHistory ||
			first.Reason != "16"+strings.Repeat("\u00e9", 58) || last.At.Before(first.At) {
			t.Errorf("%s: of many: %+v", s.name, got)
		}
		need(t, errOf(s.Fail(t.Context(), Attempt{Message: m, Token: "z", Consumer: "web-8"},
			Failure{Reason: "hopeless"})))
		if r := s.look(t, m); r.State != StateDeadLetter || r.History[rules.MaxHistory-1].Reason != "hopeless" ||
			r.History[rules.MaxHistory-1].Number != 2*rules.MaxHistory+1 {
			t.Errorf("%s: on the tombstone: %+v", s.name, r)
		}
		s.age(t, rules.TombstoneBinds+time.Minute, m)
		need(t, errOf(s.Fail(t.Context(), Attempt{Message: m, Token: "new", First: true}, again)))
		if got := s.look(t, m).History; len(got) != 1 || got[0].Number != 1 {
			t.Errorf("%s: of a new use of the id: %+v", s.name, got)
		}
	}
}

// mostBytes is the promise of record.lua.
const mostBytes = 24 * 1024

// TestLargestRecord drives a message to the largest record that there is: every text as long as it may be, all notes,
// and as many attempts as there may be, with the longest tokens.
func TestLargestRecord(t *testing.T) {
	servertest.Long(t)
	long := strings.Repeat("x", 2*MaxReason)
	m := Message{VHost: "/", Queue: "orders", ID: "id" + long, Generation: "generation" + long}
	note := Note{By: long, Why: long}
	named := func(prefix string, i int) Attempt {
		token := fmt.Sprintf("%s%d", prefix, i)
		return Attempt{Message: m, Consumer: token + long, Token: token + strings.Repeat("-", 64-len(token))}
	}
	for _, s := range storesForLong(t) {
		must := func(_ any, err error) {
			t.Helper()
			needOf(t, s.name, err)
		}
		fail := func(prefix string, i int) Reply {
			t.Helper()
			reply, err := s.Fail(t.Context(), named(prefix, i), Failure{Limit: 1 << 40, Reason: fmt.Sprint(i, long),
				Ran: time.Duration(1 << 62)})
			must(reply, err)
			return reply
		}
		fail("before", 0)
		must(nil, s.Reset(t.Context(), m, note))
		must(nil, s.SetLimit(t.Context(), m.VHost, m.Queue, Override{MaxRetries: new(MaxOverride), Note: note}))
		for i := range 3 {
			must(nil, s.LimitMessage(t.Context(), m, rules.MaxLimit, note))
			must(s.Start(t.Context(), named("stopped", i), rules.ModeIsolated, 1<<40))
			must(nil, s.End(t.Context(), named("stopped", i), false))
		}
		largest := 0
		var last int
		for i := 1; ; i++ {
			if c := s.Counter; c.rdb != nil && i%10 == 0 {
				must(s.Start(t.Context(), named("failed", i), rules.ModeIsolated, 1<<40))
				largest = max(largest, int(c.rdb.StrLen(t.Context(), c.opts.keys(m).record).Val()))
			}
			reply := fail("failed", i)
			if reply.Failures != i || reply.Limit != 1001 {
				t.Fatalf("%s: failure %d: %+v", s.name, i, reply)
			}
			if i%100 > 0 && i < 990 {
				continue
			}
			if again := fail("failed", i); again != reply && reply.Code == rules.ReplyRequeue {
				t.Fatalf("%s: failure %d repeated: %+v, first %+v", s.name, i, again, reply)
			}
			if reply.Code == rules.ReplyExhausted {
				last = i
				break
			}
		}
		if last != 1001 {
			t.Errorf("%s: exhausted after %d attempts, want 1001", s.name, last)
		}
		if largest > mostBytes {
			t.Errorf("%s: the record took %d bytes, more than %d", s.name, largest, mostBytes)
		}
		if s.Counter.rdb != nil {
			if largest < mostBytes*9/10 {
				t.Errorf("%s: the record took %d bytes: the test does not drive it to its largest", s.name, largest)
			}
			t.Logf("%s: %d bytes", s.name, largest)
		}
	}
}

// TestOldTokensAreForgotten: the oldest token is forgotten first, and its attempt stays counted.
func TestOldTokensAreForgotten(t *testing.T) {
	servertest.Long(t)
	m := Message{VHost: "/", Queue: "orders", ID: "1"}
	token := func(i int) string { return fmt.Sprintf("%016d", i) } // as long as the consumer's
	const n, kept = 800, (rules.MaxTokens - 1) / (16 + 3)
	for _, s := range storesForLong(t) {
		for i := range n {
			need(t, errOf(s.Fail(t.Context(), attempt(m, token(i)), Failure{Limit: 1001})))
		}
		r := s.look(t, m)
		if r.Failures != n || len(r.Tokens) != kept || r.Tokens.Of(token(n-kept)) != rules.KindFailed ||
			r.Tokens.Of(token(n-kept-1)) != 0 {
			t.Errorf("%s: %d failures, %d tokens, want %d, %d", s.name, r.Failures, len(r.Tokens), n, kept)
		}
	}
}
