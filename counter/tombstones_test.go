package counter

import (
	"slices"
	"testing"
	"time"

	"github.com/strikesmq/strikes/counter/rules"
)

// TestManyAreTaken: a batch of more than one call, with ids that a record keeps the beginning of.
func TestManyAreTaken(t *testing.T) {
	const n = 2*maxBatch + 44
	for _, c := range counters(t) {
		var all []Message
		for i := range n {
			m := message(string(slices.Repeat([]byte{byte('a' + i%26)}, 2*rules.MaxStoredID)) + time.Duration(i).String())
			need(t, errOf(c.Fail(t.Context(), attempt(m, "a"), reject)))
			all = append(all, m)
		}
		need(t, c.Admin().NoteRemoved(t.Context(), all[0].VHost, all[0].Queue, all))
		got, err := c.Admin().State(t.Context(), all[0].VHost, all[0].Queue)
		if err != nil || got.Tombstones.Removed != n {
			t.Errorf("%+v, %v", got.Tombstones, err)
		}
	}
}

// TestTakenKeepsTheTTL: the count outlives the records, even if the operator's TTL is shorter than that of the
// consumers.
func TestTakenKeepsTheTTL(t *testing.T) {
	for _, c := range servers(t) {
		dead := c.opts.keys(message("1")).tombstones
		if err := c.Admin().NoteRemoved(t.Context(), "/", "orders", []Message{message("1")}); err != nil ||
			c.rdb.Exists(t.Context(), dead).Val() != 0 {
			t.Errorf("of nothing a key is left, or %v", err)
		}
		keep := 2 * c.opts.TTL
		for what, tc := range map[string]struct{ had, want time.Duration }{
			"none":    {0, keep},
			"shorter": {time.Second, keep},
			"longer":  {10 * keep, 10 * keep},
		} {
			m := message(what)
			need(t, errOf(c.Fail(t.Context(), attempt(m, "a"), reject)))
			mustDo(t, c.rdb, "PERSIST", dead)
			if tc.had > 0 {
				mustDo(t, c.rdb, "PEXPIRE", dead, tc.had.Milliseconds())
			}
			need(t, c.Admin().NoteRemoved(t.Context(), m.VHost, m.Queue, []Message{m}))
			if got := c.rdb.PTTL(t.Context(), dead).Val(); got < tc.want-time.Minute || got > tc.want {
				t.Errorf("TTL that was %s: %v, want %v", what, got, tc.want)
			}
		}
	}
}

// TestLimitOfADeath: a tombstone keeps the limit at which its message died, whatever is set later.
func TestLimitOfADeath(t *testing.T) {
	set := func(retries int) *Override { return &Override{MaxRetries: new(retries), Note: Note{Why: "test"}} }
	for _, s := range stores(t) {
		for name, tc := range map[string]struct {
			override *Override
			limit    int
			want     int
		}{
			"the consumer's":   {nil, 1, 1},
			"the operator's":   {set(1), 9, 2},
			"rejected":         {nil, 0, 4}, // that of the attempt before
			"rejected, theirs": {set(10), 0, 11},
		} {
			m := Message{VHost: "/", Queue: name, ID: "1"}
			need(t, errOf(s.Fail(t.Context(), attempt(m, "a"), Failure{Limit: 4})))
			if tc.override != nil {
				need(t, s.SetLimit(t.Context(), m.VHost, m.Queue, *tc.override))
			}
			if a, err := s.Fail(t.Context(), attempt(m, "b"), Failure{Limit: tc.limit}); err != nil ||
				a.Code != rules.ReplyExhausted {
				t.Fatalf("%s: %+v, %v", name, a, err)
			}
			need(t, s.SetLimit(t.Context(), m.VHost, m.Queue, *set(20)))
			// its reply was lost, and the limit is another
			need(t, errOf(s.Fail(t.Context(), attempt(m, "b"), Failure{Limit: 30})))
			if got := s.look(t, m).InForce(set(20)); got != tc.want {
				t.Errorf("%s: %s: died at %d, want %d", s.name, name, got, tc.want)
			}
		}
	}
}

// TestResetDeadLetterIsNotMissing: a dead letter that is reset is no longer counted as dead, whatever happens to it
// later. One whose record expires is still counted, among the expired. Neither hides another.
func TestResetDeadLetterIsNotMissing(t *testing.T) {
	for _, s := range stores(t) {
		expect := func(want Tombstones) {
			t.Helper()
			state, err := s.State(t.Context(), "/", "orders")
			got := state.Tombstones
			began := !got.Since.IsZero()
			if got.Since = want.Since; err != nil || got != want || !began {
				t.Errorf("%s: %+v, %v, want %+v", s.name, got, err, want)
			}
		}
		reset := func(id string) {
			t.Helper()
			if err := s.Reset(t.Context(), message(id), Note{Why: "a purge took it"}); err != nil {
				t.Errorf("%s: reset %s: %v", s.name, id, err)
			}
		}
		remove := func(id string) {
			t.Helper()
			if err := s.NoteRemoved(t.Context(), "/", "orders", []Message{message(id)}); err != nil {
				t.Errorf("%s: remove %s: %v", s.name, id, err)
			}
		}
		for _, id := range []string{"reset", "expired", "replayed", "failing"} {
			f := reject
			if id == "failing" {
				f = again
			}
			need(t, errOf(s.Fail(t.Context(), attempt(message(id), "a"), f)))
		}
		expect(Tombstones{Count: 3})
		remove("replayed")
		expect(Tombstones{Count: 3, Removed: 1})
		reset("reset")
		expect(Tombstones{Count: 2, Removed: 1})
		for range 2 {
			reset("reset")
			reset("replayed")
			reset("failing")
			remove("reset")
		}
		expect(Tombstones{Count: 2, Removed: 1})
		s.age(t, DefaultTTL+time.Hour, message("reset"), message("expired"), message("replayed"), message("failing"))
		expect(Tombstones{Count: 2, Removed: 1, Expired: 1})
		need(t, errOf(s.Fail(t.Context(), attempt(message("reset"), "b"), reject)))
		expect(Tombstones{Count: 3, Removed: 1, Expired: 1})
	}
}
