package counter

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/google/go-cmp/cmp"

	"github.com/strikesmq/strikes/counter/rules"
)

// TestStepsShareACall: a step that shares a call gets the same reply, and leaves the same record, as a step that is
// sent alone. The steps before it in the call change neither.
func TestStepsShareACall(t *testing.T) {
	server := miniredis.RunT(t)
	c := dialTest(t, "redis://"+server.Addr())
	delay := rules.Delay{CopyNumber: 1, Above: time.Minute, Lease: time.Minute, Body: "ab"}
	progress, none := rules.Progress{Breaker: 5}, rules.Progress{}
	// take sends START, then FAIL, of nine messages of a queue: in one call if shared, with the message first at its
	// beginning. It returns the replies and records.
	take := func(queue string, first int, shared bool) map[string]string {
		server.SetTime(time.Unix(1_700_000_000, 0))
		of := func(id string, d rules.Delay, p rules.Progress) Attempt {
			return Attempt{Message: Message{VHost: "/", Queue: queue, ID: id}, Token: "second", Consumer: "of " + id, Delay: d,
				Progress: p, First: d == rules.Delay{}, Received: time.Now()}
		}
		attempts := []Attempt{of("moved", delay, none), of("failed", rules.Delay{}, progress),
			of("new", rules.Delay{}, progress), of("dead", rules.Delay{}, progress), of("moved again", delay, none), of("new copy", delay, none),
			of("dead copy", rules.Delay{}, progress), of("superseded", rules.Delay{Above: time.Minute, Body: "ab"}, none),
			of("spent", rules.Delay{}, progress)}
		for _, before := range []struct {
			at int
			f  Failure
		}{{0, Failure{Limit: 3, Wait: time.Hour}},
			{1, Failure{Limit: 3}}, {3, Failure{}},
			{4, Failure{Limit: 3, Wait: time.Hour}}, {6, Failure{Limit: 3, Wait: time.Hour}}, {6, Failure{}},
			{7, Failure{Limit: 3}}, {8, Failure{Limit: 3}}, {8, Failure{Limit: 4}}} {
			a := attempts[before.at]
			a.Token, a.Progress, a.First = fmt.Sprint("first-", before.f.Limit), rules.Progress{}, false
			a.Delay = rules.Delay{Above: time.Second, Body: "ab"}
			if before.at == 7 {
				a.Delay.CopyNumber = 1 // and this delivery is the original
			}
			if _, err := c.Fail(t.Context(), a, before.f); err != nil {
				t.Fatal(err)
			}
		}
		server.SetTime(time.Unix(1_700_001_000, 0)) // past the tombstones
		out := map[string]string{}
		for _, s := range []step{stepStart, stepFail} {
			var all []*request
			for _, a := range slices.Concat(attempts[first:], attempts[:first]) {
				args := []any{"isolated", 0, 0}
				if s == stepFail {
					a.Token, args = "third", []any{120000, "failed", "reason of " + a.ID, 1, 0, 0}
				}
				all = append(all, &request{script: script{"eval", s.source}, message: a.Message, done: make(chan struct{}),
					args: stepArgs(s, a, 3, time.Now(), args)})
			}
			if shared {
				c.sendScripts(t.Context(), all)
			}
			for _, r := range all {
				if !shared {
					c.sendScripts(t.Context(), []*request{r})
				}
				key := c.opts.keys(r.message).record
				out[s.name+" "+r.message.ID] = fmt.Sprint(r.reply, r.err, c.rdb.Get(t.Context(), key).Val())
			}
		}
		return out
	}
	want := take("alone", 0, false)
	for first := range 9 {
		if diff := cmp.Diff(want, take(fmt.Sprint("together ", first), first, true)); diff != "" {
			t.Errorf("from %d (-alone +together):\n%s", first, diff)
		}
	}
}
