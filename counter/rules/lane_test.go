package rules

import (
	"testing"
	"time"
)

// TestLaneReplies: only the owner's steps are taken, only the first open position runs, and a position that was left or
// dropped stays so.
func TestLaneReplies(t *testing.T) {
	l, places, number, now := Lane{}, []Place{}, int64(0), time.UnixMicro(7_000_001)
	step := func(act LaneAct, owner string, position int64) (code LaneCode, at int64) {
		number++
		s := LaneStep{Message: Message{ID: "m"}, Act: act, Owner: owner, Number: number}
		if position > 0 {
			s.Position = Position{l.Since, position}
		}
		reply, change := l.Step(s, LaneView{Owner: "o", Letter: "0123456789abc:0", Places: places}, now)
		gone := map[string]bool{}
		for _, m := range change.Gone {
			gone[m.Name] = true
		}
		kept := []Place{}
		for _, p := range places {
			if !gone[p.Members()[0].Name] {
				kept = append(kept, p)
			}
		}
		for _, m := range change.Add {
			if m.Score < 0 {
				kept = append(kept, ParsePlace(m))
			}
		}
		places = kept
		return reply.Code, reply.Position.Number
	}
	for i, tc := range []struct {
		act      LaneAct
		owner    string
		position int64
		code     LaneCode
		at       int64
	}{
		{LaneEnter, "o", 0, LaneFree, 0}, {LaneBlock, "other", 0, LaneUnowned, 0}, {LaneBlock, "o", 0, LaneBlocked, 1},
		{LaneEnter, "o", 0, LaneBlocked, 2}, {LaneEnter, "o", 2, LaneBlocked, 2}, {LaneEnter, "o", 1, LaneRun, 1},
		{LaneLeave, "other", 1, LaneUnowned, 0}, {LaneLeave, "o", 1, LaneBlocked, 1}, {LaneEnter, "o", 1, LaneSuperseded, 1},
		{LaneBlock, "o", 1, LaneSuperseded, 1}, {LaneEnter, "o", 2, LaneRun, 2}, {LaneLeave, "o", 2, LaneFree, 2},
		{LaneEnter, "o", 2, LaneSuperseded, 2}, {LaneEnter, "o", 0, LaneFree, 0}, {LaneEnter, "o", 9, LaneBlocked, 3},
	} {
		if code, at := step(tc.act, tc.owner, tc.position); code != tc.code || at != tc.at {
			t.Errorf("step %d: reply %d at %d, want %+v", i, code, at, tc)
		}
	}
}
