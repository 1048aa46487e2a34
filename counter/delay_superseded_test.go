package counter

import (
	"testing"

	"github.com/strikesmq/strikes/counter/rules"
)

// A superseded failure writes no tombstone: its copy takes its place, and is dead-lettered once.
func TestSupersededFailureIsNoDeadLetter(t *testing.T) {
	for _, s := range stores(t) {
		for name, f := range map[string]Failure{"limit": reject, "at most": {Limit: testLimit, AtMost: 1, Reason: "boom"},
			"skip": again} {
			m := Message{VHost: "/", Queue: name, ID: "1"}
			a := attempt(m, "a")
			a.Delay = Delay{Body: "ab", Lease: rules.MoveLease}
			need(t, errOf(s.Start(t.Context(), a, ModeShared, testLimit)))
			copied := attempt(m, "b")
			copied.Delay = Delay{CopyNumber: 1, Body: "ab", Lease: rules.MoveLease}
			need(t, errOf(s.Start(t.Context(), copied, ModeShared, testLimit)))
			if name == "skip" {
				need(t, s.Skip(t.Context(), m, Note{By: "op", Why: "bad"}))
			}
			reply, err := s.Fail(t.Context(), a, f)
			if err != nil || reply.Code != ReplySuperseded {
				t.Errorf("%s: %s: a failure of the original: %v, %v", s.name, name, reply.Code, err)
			}
			if got := s.look(t, m); got.tombstones.Count != 0 || got.State == StateDeadLetter || got.Failures != 1 {
				t.Errorf("%s: %s: after a superseded failure: state %q, %d failures, %d tombstones", s.name, name, got.State,
					got.Failures, got.tombstones.Count)
			}
			reply, err = s.Fail(t.Context(), copied, reject)
			if got := s.look(t, m); err != nil || reply.Code != ReplyExhausted || got.tombstones.Count != 1 {
				t.Errorf("%s: %s: a failure of the copy: %v, %d tombstones, %v", s.name, name, reply.Code,
					got.tombstones.Count, err)
			}
		}
	}
}
