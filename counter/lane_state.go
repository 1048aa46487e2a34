package counter

import (
	"maps"
	"slices"

	"github.com/strikesmq/strikes/counter/rules"
)

// LaneState is the beginning of one blocked lane, as the store keeps it.
type LaneState struct {
	Since    int64   // of its Positions
	Last     int64   // number of the last position
	Messages int     // that are neither handled nor dropped
	Open     []int64 // numbers of the positions of the first 500 of them, in their order

	letters []rules.Place // at Open or before, by position
	// all positions of these letters, by the letter's name. One message has several if its nack was lost, and so has each
	// further message of its id.
	names map[string][]rules.Place
}

// PositionOf returns the first position of a dead letter; false if the lane does not expect it.
func (s *LaneState) PositionOf(letter Message) (Position, bool) {
	name := member(letter.ID, letter.Generation)
	for _, p := range s.letters {
		if p.Letter == name {
			return Position{Since: s.Since, Number: p.Number}, true
		}
	}
	return Position{}, false
}

// Letters names the dead letters that the lane expects, as LetterName does.
func (s *LaneState) Letters() []string { return slices.Collect(maps.Keys(s.names)) }

// LetterName names a dead letter within its queue.
func LetterName(letter Message) string { return member(letter.ID, letter.Generation) }

// First returns the position of the message that blocks the lane; the zero value if no position is open.
func (s *LaneState) First() Position {
	if len(s.Open) == 0 {
		return Position{}
	}
	return Position{Since: s.Since, Number: s.Open[0]}
}

// IsOpen reports whether the message at a position is neither handled nor dropped. It knows the positions of Open.
func (s *LaneState) IsOpen(p Position) bool {
	_, open := slices.BinarySearch(s.Open, p.Number)
	return open && p.Since == s.Since
}

// Dead returns the numbers of the positions whose messages are dead letters. With each is its id, or the fingerprint of
// one that has none. Any other message was replayed, and is not handled yet.
func (s *LaneState) Dead() map[int64]string {
	out := map[int64]string{}
	for _, p := range s.letters {
		if id, dead := out[p.Number]; p.Kind != rules.PlacePublished && (!dead || p.ID < id) {
			out[p.Number] = p.ID
		}
	}
	return out
}
