package counter

import (
	"maps"
	"slices"
)

// LaneDeadLetter is a dead letter that was found while a lane is replayed.
type LaneDeadLetter struct {
	Message
	Replays int64 // how often it was replayed before it died
}

// LanePlan is what a replay of a lane does with the dead letters that were found, by their indices.
type LanePlan struct {
	Publish []Planned // in this order
	Doubles []int     // letters that were published before: to be taken off
	Missing []int64   // places whose dead letters were not found; nothing after the first of them is published
	Waiting []int64   // places whose messages were published again and are not handled yet
}

// Planned is a dead letter to publish again at its place.
type Planned struct {
	Index int
	Place Place
}

// Plan decides what a replay of the lane does next. The plan leaves out dead letters that the lane does not expect.
// If two have the same id and generation, it publishes one at most, and none is a double: they may be two messages.
func (s *LaneState) Plan(found []LaneDeadLetter) LanePlan {
	at, seen := map[int64][]int{}, map[Message]int{}
	for i, l := range found {
		if p, ok := s.PlaceOf(l.Message); ok {
			at[p.Number] = append(at[p.Number], i)
			seen[l.Message]++
		}
	}
	expected := s.Dead()
	var plan LanePlan
	chosen := map[int]bool{}
	for _, n := range s.Open {
		_, dead := expected[n]
		switch {
		case !dead:
			plan.Waiting = append(plan.Waiting, n)
		case len(at[n]) == 0:
			plan.Missing = append(plan.Missing, n)
		case len(plan.Missing) == 0:
			newest := slices.MaxFunc(at[n], func(a, b int) int { return int(found[a].Replays - found[b].Replays) })
			chosen[newest] = true
			plan.Publish = append(plan.Publish, Planned{newest, Place{s.Since, n}})
		}
	}
	for i, l := range found {
		p, ok := s.PlaceOf(l.Message)
		if ok && seen[l.Message] == 1 && !chosen[i] && (!s.IsOpen(p) || isPublished(plan.Publish, p)) {
			plan.Doubles = append(plan.Doubles, i)
		}
	}
	return plan
}

func isPublished(planned []Planned, p Place) bool {
	return slices.ContainsFunc(planned, func(l Planned) bool { return l.Place == p })
}

// ForTaken returns the state by which a replay plans. It has read s, and has taken the dead letters of the places up to a number; now is
// what it has read since. Each of these dead letters has its place then, and keeps it. Before, its consumer may have lost the queue
// to another, which parks the message again, at a later place: that is left out, as all that was not taken.
func (s *LaneState) ForTaken(upTo int64, now *LaneState) *LaneState {
	if now.Since != s.Since { // the store has lost its memory meanwhile, and numbers the places anew
		upTo = 0
	}
	n, _ := slices.BinarySearch(now.Open, upTo+1)
	letters := maps.Clone(now.letters)
	maps.DeleteFunc(letters, func(_ string, p parked) bool { return p.place > upTo })
	return &LaneState{Since: now.Since, Last: now.Last, Open: now.Open[:n], letters: letters}
}
