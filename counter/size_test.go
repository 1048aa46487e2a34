package counter

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/strikesmq/strikes/counter/rules"
	"github.com/strikesmq/strikes/internal/servertest"
)

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
