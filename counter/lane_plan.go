package counter

import (
	"slices"
)

// LaneDeadLetter is a dead letter that was found while a lane is replayed.
type LaneDeadLetter struct {
	Message
	Replays int64 // how often it was replayed before it died
}

// LanePlan says how a replay of a lane goes on, with the dead letters that were found, by their indices.
type LanePlan struct {
	Publish []Planned // in this order
	Doubles []Planned // letters that were published before: to be taken off
	Missing []int64   // places whose dead letters were not found
	Waiting []int64   // places whose messages were published again and are not handled yet

	Found []Planned // every dead letter whose place is known

	// Replaced are places whose dead letters were not found, but may be those of later places: the nack of the
	// session that parked them was lost, and a later session parked the message again. Drop them once no dead letter
	// can be on its way.
	Replaced []int64
}

// Planned is a dead letter, and its place.
type Planned struct {
	Index int
	Place Place
}

// Plan decides what a replay of the lane does next. It publishes nothing after the first place that is Missing or
// Replaced, and leaves out dead letters that the lane does not expect. If more are found of an id and generation than
// the lane expects, none is a double: they may be different messages.
func (s *LaneState) Plan(found []LaneDeadLetter) LanePlan {
	is := s.match(found)
	var plan LanePlan
	chosen := map[int]bool{}
	for _, n := range s.Open {
		place := Place{s.Since, n}
		best, waiting, replaced := -1, true, true
		for i, p := range s.letters {
			if p.place != n {
				continue
			}
			if at, ok := is.found[i]; ok && (best < 0 || found[at].Replays > found[best].Replays) {
				best = at
			}
			waiting = waiting && p.published
			replaced = replaced && is.replaced[i]
		}
		switch {
		case best >= 0 && len(plan.Missing)+len(plan.Replaced) == 0:
			chosen[best] = true
			plan.Publish = append(plan.Publish, Planned{best, place})
		case best >= 0:
		case waiting:
			plan.Waiting = append(plan.Waiting, n)
		case replaced:
			plan.Replaced = append(plan.Replaced, n)
		default:
			plan.Missing = append(plan.Missing, n)
		}
	}
	for i, p := range s.letters {
		at, ok := is.found[i]
		place := Place{s.Since, p.place}
		if ok {
			plan.Found = append(plan.Found, Planned{at, place})
		}
		if ok && !is.more[p.name] && !chosen[at] && (!s.IsOpen(place) || isPublished(plan.Publish, place)) {
			plan.Doubles = append(plan.Doubles, Planned{at, place})
		}
	}
	return plan
}

// matched has, for the index of each letter of the lane, the dead letters that were found for it.
type matched struct {
	found    map[int]int
	replaced map[int]bool
	more     map[string]bool // more were found of a name than the lane expects
}

// match gives each letter of the lane the dead letter that was found for it. Those of one name are in the order of
// their places. If fewer were found, the oldest places are first that were published before, and then those that a
// later session replaced.
func (s *LaneState) match(found []LaneDeadLetter) matched {
	is := matched{found: map[int]int{}, replaced: map[int]bool{}, more: map[string]bool{}}
	copies, at := map[string][]int{}, map[string][]int{}
	for i, l := range found {
		name := member(l.ID, l.Generation)
		copies[name] = append(copies[name], i)
	}
	for i, p := range s.letters {
		at[p.name] = append(at[p.name], i)
	}
	lacking, rest := map[string]int{}, map[string][]int{}
	for name, letters := range at {
		lacking[name] = max(len(s.names[name]), len(letters)) - len(copies[name])
		is.more[name] = lacking[name] < 0
		for _, i := range letters {
			p := s.letters[i]
			if lacking[name] > 0 && (p.published || !s.IsOpen(Place{s.Since, p.place})) {
				lacking[name]--
				continue
			}
			rest[name] = append(rest[name], i)
		}
	}
	replaced := s.replaced(lacking)
	for name, letters := range rest {
		for _, i := range letters {
			if slices.Contains(replaced[name], s.letters[i].place) {
				is.replaced[i] = true
				continue
			}
			if len(copies[name]) > 0 {
				is.found[i] = copies[name][0]
				copies[name] = copies[name][1:]
			}
		}
	}
	return is
}

// replaced returns the places of letters that later sessions may have replaced, as many at most as dead letters of
// each are lacking. The nacks of a session arrive in their order, so those that it loses are the last. A letter that
// allows one answer only tells by this what became of others.
func (s *LaneState) replaced(lacking map[string]int) map[string][]int64 {
	// by session: from which place on its nacks were lost, and up to which not
	lost, arrived := map[string]int64{}, map[string]int64{}
	for name, n := range lacking {
		sessions := s.sessionsOf(name)
		if n <= 0 {
			for _, at := range slices.Concat(sessions...) {
				arrived[at.owner] = max(arrived[at.owner], at.place)
			}
		} else if before := slices.Concat(sessions[:max(len(sessions)-1, 0)]...); n >= len(before) {
			for _, at := range before {
				if from, is := lost[at.owner]; !is || at.place < from {
					lost[at.owner] = at.place
				}
			}
		}
	}
	out := map[string][]int64{}
	for name, n := range lacking {
		out[name] = replacedOf(s.sessionsOf(name), n, lost, arrived)
	}
	return out
}

// replacedOf returns n places at most of a letter, each with another one of a later session that replaced it. Those
// come first whose nacks were surely lost, then those that redelivered messages replaced.
func replacedOf(sessions [][]parkedAt, n int, lost, arrived map[string]int64) (out []int64) {
	all := slices.Clone(sessions)
	later := map[int64]bool{} // places that replaced one
	replace := func(session int, redelivered bool) bool {
		for _, at := range slices.Concat(all[session+1:]...) {
			if !later[at.place] && (at.again || !redelivered) {
				later[at.place] = true
				return true
			}
		}
		return false
	}
	for _, only := range []struct{ lost, redelivered bool }{{true, true}, {true, false}, {false, true}, {false, false}} {
		for i := len(sessions) - 2; i >= 0; i-- {
			for n > 0 && len(sessions[i]) > 0 {
				last := sessions[i][len(sessions[i])-1]
				from, isLost := lost[last.owner]
				if isLost = isLost && last.place >= from; !isLost && (only.lost || last.place <= arrived[last.owner]) ||
					!replace(i, only.redelivered) {
					break
				}
				out = append(out, last.place)
				sessions[i] = sessions[i][:len(sessions[i])-1]
				n--
			}
		}
	}
	return out
}

// sessionsOf returns the open places of a letter that was not published again, by the sessions that parked it.
func (s *LaneState) sessionsOf(name string) (sessions [][]parkedAt) {
	for _, at := range s.names[name] {
		if at.place <= s.lastOpen() && !s.IsOpen(Place{s.Since, at.place}) || s.isPublished(name, at.place) {
			continue
		}
		if last := len(sessions) - 1; last < 0 || sessions[last][0].owner != at.owner {
			sessions = append(sessions, nil)
		}
		sessions[len(sessions)-1] = append(sessions[len(sessions)-1], at)
	}
	return sessions
}

func (s *LaneState) lastOpen() int64 {
	if len(s.Open) == 0 {
		return 0
	}
	return s.Open[len(s.Open)-1]
}

func (s *LaneState) isPublished(name string, place int64) bool {
	return slices.ContainsFunc(s.letters, func(p parked) bool { return p.name == name && p.place == place && p.published })
}

func isPublished(planned []Planned, p Place) bool {
	return slices.ContainsFunc(planned, func(l Planned) bool { return l.Place == p })
}

// ForTaken returns the state by which a replay plans. It has read s, and has taken the dead letters of the places up
// to a number; now is the state that it has read since. Later places are left out, as their dead letters were not
// taken. But the letters' later places count: a consumer may have lost the queue meanwhile to another, which has
// parked the same message again.
func (s *LaneState) ForTaken(upTo int64, now *LaneState) *LaneState {
	if now.Since != s.Since { // the store has lost its memory meanwhile, and numbers the places anew
		upTo = 0
	}
	n, _ := slices.BinarySearch(now.Open, upTo+1)
	letters := slices.DeleteFunc(slices.Clone(now.letters), func(p parked) bool { return p.place > upTo })
	return &LaneState{Since: now.Since, Last: now.Last, Messages: now.Messages, Open: now.Open[:n], letters: letters,
		names: now.names}
}
