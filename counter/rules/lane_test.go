package rules

import (
	"testing"
	"time"
)

// steppedLane is a lane and its places.
type steppedLane struct {
	Lane
	places []Place
}

// take takes a step of the owner o. The letter of a message is its id.
func (l *steppedLane) take(s LaneStep) LaneReply {
	reply, change := l.Step(s, LaneView{Owner: "o", Letter: "0123456789abc:" + s.ID, Places: l.places},
		time.UnixMicro(7_000_001))
	gone := map[string]bool{}
	for _, m := range change.Gone {
		gone[m.Name] = true
	}
	kept := []Place{}
	for _, p := range l.places {
		if !gone[p.Members()[0].Name] {
			kept = append(kept, p)
		}
	}
	for _, m := range change.Add {
		if m.Score < 0 {
			kept = append(kept, ParsePlace(m))
		}
	}
	l.places = kept
	return reply
}

// TestMovedBack: a dead letter that another program has moved back has its position again, and runs in its turn. A
// message gets a new position if it has not died before, if it may have several, or if its position was given up.
func TestMovedBack(t *testing.T) {
	const died = "1@1700000000"
	l := steppedLane{}
	for i, tc := range []struct {
		id, generation string
		act            LaneAct
		carries        int64
		code           LaneCode
		at             int64
	}{
		{"a", "", LaneBlock, 0, LaneBlocked, 1}, {"b", "", LaneEnter, 0, LaneBlocked, 2},
		{"b", died, LaneEnter, 0, LaneBlocked, 2}, {"a", died, LaneEnter, 0, LaneRun, 1},
		{"a", "", LaneEnter, 0, LaneBlocked, 3},   // published again: it is not the first of its id
		{"a", died, LaneEnter, 0, LaneBlocked, 4}, // either of the two
		{"a", died, LaneLeave, 1, LaneBlocked, 1}, {"b", died, LaneEnter, 0, LaneRun, 2},
		{"b", died, LaneBlock, 2, LaneBlocked, 2}, {"b", died, LaneEnter, 0, LaneRun, 2},
		{"b", died, LaneLeave, 2, LaneBlocked, 2}, {"b", died, LaneEnter, 0, LaneBlocked, 5}, // a copy of it
		{"c", died, LaneEnter, 0, LaneBlocked, 6}, {"c", died, LaneEnter, 0, LaneBlocked, 6},
	} {
		s := LaneStep{Message: Message{ID: tc.id, Generation: tc.generation}, Act: tc.act, Owner: "o", Number: int64(i + 1)}
		if tc.carries > 0 {
			s.Position = Position{l.Since, tc.carries}
		}
		if got := l.take(s); got.Code != tc.code || got.Position.Number != tc.at {
			t.Errorf("step %d: reply %d at %d, want %+v", i, got.Code, got.Position.Number, tc)
		}
	}
	if l.Open != 4 || l.First != 3 || len(l.places) != 8 {
		t.Errorf("%+v, %+v; want the positions 3 to 6, each with a dead letter", l.Lane, l.places)
	}
}

// TestLaneReplies: only the owner's steps are taken, only the first open position runs, and a position that was left or
// dropped stays so.
func TestLaneReplies(t *testing.T) {
	l := steppedLane{}
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
		s := LaneStep{Message: Message{ID: "m"}, Act: tc.act, Owner: tc.owner, Number: int64(i + 1)}
		if tc.position > 0 {
			s.Position = Position{l.Since, tc.position}
		}
		if got := l.take(s); got.Code != tc.code || got.Position.Number != tc.at {
			t.Errorf("step %d: reply %d at %d, want %+v", i, got.Code, got.Position.Number, tc)
		}
	}
}
