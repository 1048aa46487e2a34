package counter

import (
	"slices"

	"github.com/strikesmq/strikes/counter/rules"
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
	Missing []int64   // positions whose dead letters were not found
	Waiting []int64   // positions whose messages were published again and are not handled yet

	Found  []Planned // every dead letter whose position is certain, by position
	Unsure []Planned // dead letters that may be those of other positions, which are not found yet

	// Replaced are positions whose dead letters were not found, but may be those of later positions: the nack of the
	// session that blocked them was lost, and a later session blocked the message again. Drop them once no dead letter
	// can be on its way.
	Replaced []int64
}

// Planned is a dead letter, and its position.
type Planned struct {
	Index    int
	Position Position
}

// Plan decides the next steps of a replay of the lane. It publishes nothing after the first position that is Missing
// or Replaced, or whose dead letter may be that of another position. It leaves out dead letters that the lane does not
// expect. If more are found of an id and generation than the lane expects, none is a double: they may be different
// messages.
func (s *LaneState) Plan(found []LaneDeadLetter) LanePlan {
	is := s.match(found)
	var plan LanePlan
	chosen, stopped := map[int]bool{}, false
	for _, n := range s.Open {
		position := Position{Since: s.Since, Number: n}
		best, waiting, replaced := -1, true, true
		for i, p := range s.letters {
			if p.Number != n {
				continue
			}
			if at, ok := is.found[i]; ok && (best < 0 || found[at].Replays > found[best].Replays) {
				best = at
			}
			stopped = stopped || is.unsure[i]
			waiting = waiting && p.Kind == rules.PlacePublished
			replaced = replaced && is.replaced[i]
		}
		switch {
		case best >= 0 && !stopped:
			chosen[best] = true
			plan.Publish = append(plan.Publish, Planned{best, position})
		case best >= 0:
		case waiting:
			plan.Waiting = append(plan.Waiting, n)
		case replaced:
			plan.Replaced, stopped = append(plan.Replaced, n), true
		default:
			plan.Missing, stopped = append(plan.Missing, n), true
		}
	}
	for i, p := range s.letters {
		at, ok := is.found[i]
		position := Position{Since: s.Since, Number: p.Number}
		switch {
		case ok && is.unsure[i]:
			plan.Unsure = append(plan.Unsure, Planned{at, position})
		case ok:
			plan.Found = append(plan.Found, Planned{at, position})
		}
		published := slices.ContainsFunc(plan.Publish, func(l Planned) bool { return l.Position == position })
		if ok && !is.more[p.Letter] && !chosen[at] && (!s.IsOpen(position) || published) {
			plan.Doubles = append(plan.Doubles, Planned{at, position})
		}
	}
	return plan
}

// matched has, for the index of each letter of the lane, the dead letters that were found for it.
type matched struct {
	found    map[int]int
	replaced map[int]bool
	unsure   map[int]bool    // a dead letter of its name that a later session blocked again may not have arrived yet
	more     map[string]bool // more were found of a name than the lane expects
}

// match gives each letter of the lane the dead letter that was found for it. Those of one name are in the order of
// their positions. If fewer were found, the oldest positions are first that were published before, and then those that
// a later session replaced.
func (s *LaneState) match(found []LaneDeadLetter) matched {
	is := matched{found: map[int]int{}, replaced: map[int]bool{}, unsure: map[int]bool{}, more: map[string]bool{}}
	copies, at := map[string][]int{}, map[string][]int{}
	for i, l := range found {
		name := member(l.ID, l.Generation)
		copies[name] = append(copies[name], i)
	}
	for i, p := range s.letters {
		at[p.Letter] = append(at[p.Letter], i)
	}
	lacking, rest := map[string]int{}, map[string][]int{}
	for name, letters := range at {
		lacking[name] = max(len(s.names[name]), len(letters)) - len(copies[name])
		is.more[name] = lacking[name] < 0
		for _, i := range letters {
			p := s.letters[i]
			if lacking[name] > 0 && (p.Kind == rules.PlacePublished || !s.IsOpen(Position{Since: s.Since, Number: p.Number})) {
				lacking[name]--
				continue
			}
			rest[name] = append(rest[name], i)
		}
	}
	replaced := s.replaced(lacking)
	for name, letters := range rest {
		for _, i := range letters {
			if slices.Contains(replaced[name], s.letters[i].Number) {
				is.replaced[i] = true
				continue
			}
			is.unsure[i] = len(replaced[name]) > 0 && lacking[name] > len(replaced[name])
			if len(copies[name]) > 0 {
				is.found[i] = copies[name][0]
				copies[name] = copies[name][1:]
			}
		}
	}
	return is
}

// replaced returns the positions of letters that later sessions may have replaced, as many at most as dead letters of
// each are lacking. The nacks of a session arrive in their order, so those that it loses are the last. A letter that
// allows one answer only decides by this about others.
func (s *LaneState) replaced(lacking map[string]int) map[string][]int64 {
	// by session: from which position on its nacks were lost, and up to which not
	lost, arrived := map[string]int64{}, map[string]int64{}
	for name, n := range lacking {
		sessions := s.sessionsOf(name)
		if n <= 0 {
			for _, at := range slices.Concat(sessions...) {
				arrived[at.Owner] = max(arrived[at.Owner], at.Number)
			}
		} else if before := slices.Concat(sessions[:max(len(sessions)-1, 0)]...); n >= len(before) {
			for _, at := range before {
				if from, is := lost[at.Owner]; !is || at.Number < from {
					lost[at.Owner] = at.Number
				}
			}
		}
	}
	out := map[string][]int64{}
	for name, n := range lacking {
		if n > 0 {
			s.noteGone(name, lacking, arrived)
		}
	}
	for name, n := range lacking {
		out[name] = replacedOf(s.sessionsOf(name), n, lost, arrived)
	}
	return out
}

// noteGone adds nacks of the letter name to arrived. Each session receives messages in the order of the queue. For
// example, one session blocks x, x, y, and a later one x, y. So one x had left the queue by then: its last nack had
// arrived. It counts the first messages as gone. It compares only with a letter of one message, as y is here. Of the
// sessions before, it judges only the last one that had an x. Messages that left the queue earlier say nothing of its
// nacks.
func (s *LaneState) noteGone(name string, lacking map[string]int, arrived map[string]int64) {
	for other, n := range lacking {
		positions := slices.Concat(s.sessionsOf(other)...)
		if n < 1 || len(positions) != n+1 { // more than one message, or none for sure
			continue
		}
		for i, again := range positions[1:] {
			at, last, left := positions[i], "", 0
			var ahead []int64 // of the last session that had them before
			for _, p := range s.names[name] {
				switch {
				case p.Number > again.Number || (p.Owner == at.Owner) == (p.Number > at.Number): // not ahead, or long before
				case p.Owner == again.Owner:
					left++
				case p.Owner != last:
					ahead, last = []int64{p.Number}, p.Owner
				default:
					ahead = append(ahead, p.Number)
				}
			}
			if gone := len(ahead) - left; gone > 0 {
				arrived[last] = max(arrived[last], ahead[gone-1])
			}
		}
	}
}

// replacedOf returns n positions at most of a letter, each with another one of a later session that replaced it. Those
// come first whose nacks were surely lost, then those that redelivered messages replaced.
func replacedOf(sessions [][]rules.Place, n int, lost, arrived map[string]int64) (out []int64) {
	all, taken := slices.Clone(sessions), make([]int, len(sessions))
	// replace takes one more position of a session, if later sessions have a position that replaces each that was taken.
	replace := func(session int, redelivered bool) bool {
		need, room := 1, 0
		for i := len(all) - 1; i >= 0; i-- {
			if need += taken[i]; i <= session && need > room {
				return false
			}
			for _, at := range all[i] {
				if at.Again || !redelivered {
					room++
				}
			}
		}
		taken[session]++
		return true
	}
	for _, only := range []struct{ lost, redelivered bool }{{true, true}, {true, false}, {false, true}, {false, false}} {
		for i := len(sessions) - 2; i >= 0; i-- {
			for n > 0 && len(sessions[i]) > 0 {
				last := sessions[i][len(sessions[i])-1]
				from, isLost := lost[last.Owner]
				if isLost = isLost && last.Number >= from; !isLost && (only.lost || last.Number <= arrived[last.Owner]) ||
					!replace(i, only.redelivered) {
					break
				}
				out = append(out, last.Number)
				sessions[i] = sessions[i][:len(sessions[i])-1]
				n--
			}
		}
	}
	return out
}

// sessionsOf returns the open positions of a letter that was not published again, by the sessions that blocked it.
func (s *LaneState) sessionsOf(name string) (sessions [][]rules.Place) {
	for _, at := range s.names[name] {
		if at.Number <= s.lastOpen() && !s.IsOpen(Position{Since: s.Since, Number: at.Number}) ||
			s.isPublished(name, at.Number) {
			continue
		}
		if last := len(sessions) - 1; last < 0 || sessions[last][0].Owner != at.Owner {
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

func (s *LaneState) isPublished(name string, position int64) bool {
	return slices.ContainsFunc(s.letters, func(p rules.Place) bool {
		return p.Letter == name && p.Number == position && p.Kind == rules.PlacePublished
	})
}

// ForTaken returns the state by which a replay plans. It has read s, and has taken the dead letters of the positions up
// to a number; now is the state that it has read since. Later positions are left out, as their dead letters were not
// taken. But the letters' later positions count: a consumer may have lost the queue meanwhile to another, which has
// blocked the same message again.
func (s *LaneState) ForTaken(upTo int64, now *LaneState) *LaneState {
	if now.Since != s.Since { // the store has lost its memory meanwhile, and numbers the positions anew
		upTo = 0
	}
	n, _ := slices.BinarySearch(now.Open, upTo+1)
	letters := slices.DeleteFunc(slices.Clone(now.letters), func(p rules.Place) bool { return p.Number > upTo })
	return &LaneState{Since: now.Since, Last: now.Last, Messages: now.Messages, Open: now.Open[:n], letters: letters,
		names: now.names}
}
