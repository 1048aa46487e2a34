package rules

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/strikesmq/strikes/internal/printable"
)

// Position is the position of a message in its lane. A message gets it when it is first blocked, and keeps it through
// replays. The zero value is that of a message which was never blocked.
type Position struct {
	Since  int64 // when the store began to number the lane, in µs since 1970: a store that lost its memory begins again
	Number int64 // from 1
}

// String is the form of a position in a message's header.
func (p Position) String() string { return fmt.Sprintf("%d.%d", p.Since, p.Number) }

// LaneAct is what a consumer tells the store about a message of a lane.
type LaneAct int

// The acts.
const (
	LaneEnter LaneAct = iota + 1 // may it run? If not, it is blocked
	LaneBlock                    // it is about to be dead-lettered, which blocks its lane
	LaneLeave                    // it succeeded, and is about to be acked; only of a message with a Position
)

// LaneStep is one step of a message through its lane. A step is safe to repeat with the same Number until a later one
// of the lane was sent.
type LaneStep struct {
	Message     // the ID of one without an id is its fingerprint
	Lane        string
	Act         LaneAct
	Owner       string   // given to OwnLanes
	Number      int64    // of the step, from 1: greater than those of the owner's earlier steps in the lane
	Position    Position // that the message carries
	Redelivered bool     // the broker has delivered the message before
}

// LaneCode is the store's reply to a LaneStep.
type LaneCode int

// The reply.
const (
	LaneFree LaneCode = iota + 1 // the lane is not blocked. LaneEnter: the message may run
	LaneRun                      // LaneEnter: the lane is blocked, and it is the turn of this message, which may run
	// LaneEnter: the message is blocked: dead-letter it. LaneBlock, LaneLeave: done; the lane is blocked
	LaneBlocked
	// the position of the message was left or dropped. LaneEnter: ack it without an attempt
	LaneSuperseded
	LaneUnowned // nothing is done: another consumer owns the lanes now. End the session
	LaneUnknown // nothing is done: the store has lost its memory of the lanes. End the session
)

// LaneReply is the store's reply to a LaneStep.
type LaneReply struct {
	Code     LaneCode
	Position Position // of the message, if it has one
}

// Lane is what the store keeps of a lane. A lane is blocked while one of its positions is open. Only the message at the
// first open position may run. All others are blocked: they are dead-lettered without an attempt. So the order of the
// positions is the order of the attempts, whatever operators publish, however often, and whenever.
//
// A message without a position gets a new one, behind all others. So a second message of the same id never takes the
// position of the first. A message whose nack never arrived gets two: a replay finds one dead letter for both, and
// gives up the older.
//
// The store keeps a Lane after its release, so that late duplicates are recognised.
type Lane struct {
	Name    string
	Since   int64     // of its Positions
	Last    int64     // number of the newest position
	First   int64     // number of the first open position; 0: the lane is not blocked
	Open    int64     // how many positions are open
	By      string    // id of the dead letter at First; empty: that message was published again
	Blocked time.Time // since then

	Owner   string // of the last step
	Number  int64  // of it
	Said    LaneReply
	Changed bool // an operator dropped positions after it

	Writes int64 // of the lane
	Moved  int64 // changes of places that were there: a reader of several pages compares it
}

// IsBlocked reports whether a position of the lane is open.
func (l *Lane) IsBlocked() bool { return l.Open > 0 }

// Place is a member of a lane's set of places: an open position, or a dead letter. A dead letter is a place from when
// its message was blocked until it was published again and is off the dead-letter queue.
type Place struct {
	Number int64
	Kind   PlaceKind
	Letter string // of a dead letter: the name of its message's record
	Owner  string // that blocked it
	Again  bool   // the broker had delivered it before
	ID     string // for people
}

// PlaceKind is the kind of a Place.
type PlaceKind string

// The kinds of places.
const (
	PlaceOpen      PlaceKind = "p" // an open position; a page has it before the dead letters of the position
	PlaceDied      PlaceKind = "d" // a dead letter
	PlaceBlocked   PlaceKind = "b" // a dead letter without a tombstone, because it had no attempt
	PlacePublished PlaceKind = "a" // a dead letter that an operator has begun to publish again
)

// LaneMove is a change of a lane's set of places.
type LaneMove struct {
	Name  string
	Score int64
	Gone  bool
}

// LaneChange is what a step changed besides the Lane. The zero value is no change.
type LaneChange struct {
	Save    bool
	Moves   []LaneMove
	Counted int64 // of the dead letters at open positions that have no tombstone: the change of their number
	Late    int64 // how many of them were added
}

// LaneView is what a step sees besides the Lane.
type LaneView struct {
	Owner  string  // of the lanes of the queue; empty: none
	Letter string  // the name of the message's record
	Died   bool    // the message has a tombstone
	Places []Place // those at Lane.Needs, and up to the next open position
	Before string  // the session that blocked the message at its first position; empty: none
}

// Needs returns the number of the position whose places a step reads, 0 for none, and whether it reads Before.
func (l *Lane) Needs(s LaneStep) (number int64, before bool) {
	number = l.carried(s)
	isNew := number == 0 && s.Act == LaneEnter && (l.IsBlocked() || s.Position.Number > 0)
	if !l.IsBlocked() || number < l.First || number == l.First && s.Act == LaneEnter {
		number = 0
	}
	return number, isNew && s.Redelivered
}

// carried is the number of the message's position; 0: it has none in this lane.
func (l *Lane) carried(s LaneStep) int64 {
	if s.Position.Since != l.Since || s.Position.Number > l.Last {
		return 0
	}
	return s.Position.Number
}

// Step takes a step. A repeated step gets the reply of the first, and changes nothing: an operator may have replayed
// the message meanwhile, so a new position would have no dead letter.
func (l *Lane) Step(s LaneStep, v LaneView, now time.Time) (LaneReply, LaneChange) {
	switch {
	case v.Owner == "":
		return LaneReply{Code: LaneUnknown}, LaneChange{}
	case v.Owner != s.Owner, l.Owner == s.Owner && (l.Number > s.Number || l.Number == s.Number && l.Changed):
		return LaneReply{Code: LaneUnowned}, LaneChange{}
	case l.Owner == s.Owner && l.Number == s.Number:
		return l.Said, LaneChange{}
	}
	if l.Since == 0 {
		l.Since = now.UnixMicro()
	}
	number, w := l.carried(s), &laneWork{Lane: l, places: v.Places}
	isOpen := number > 0 && (number == l.First || w.find(openAt(number)) >= 0)
	reply := LaneReply{Code: LaneBlocked}
	switch {
	case number > 0 && !isOpen:
		reply.Code = LaneSuperseded
	case s.Act == LaneLeave:
		if number > 0 {
			w.shut(number)
		}
		if !l.IsBlocked() {
			reply.Code = LaneFree
		}
	case s.Act == LaneEnter && number > 0 && number == l.First:
		reply.Code = LaneRun
	case s.Act == LaneEnter && s.Position.Number == 0 && !l.IsBlocked():
		reply.Code = LaneFree
	default:
		number = w.block(s, v, number, now)
	}
	if l.Last == 0 {
		return reply, LaneChange{}
	}
	if number > 0 {
		reply.Position = Position{l.Since, number}
	}
	l.Name, l.Owner, l.Number, l.Said, l.Changed = s.Lane, s.Owner, s.Number, reply, false
	return reply, w.done()
}

// Drop gives up the messages at some positions, whose places it gets.
func (l *Lane) Drop(positions []Position, places []Place) LaneChange {
	w := &laneWork{Lane: l, places: places}
	for _, p := range positions {
		if p.Since == l.Since && w.find(openAt(p.Number)) >= 0 {
			w.shut(p.Number)
			w.removeLetters(p.Number, "")
		}
	}
	if !w.moved {
		return LaneChange{}
	}
	l.Changed = true
	return w.done()
}

// Publish notes that dead letters are about to be published again, or that they were, and are off the dead-letter
// queue. It gets the places at their positions.
func (l *Lane) Publish(letters []Place, done bool, places []Place) LaneChange {
	w := &laneWork{Lane: l, places: places}
	for _, of := range letters {
		i := w.find(letterAt(of.Number, of.Letter))
		if i < 0 {
			continue
		}
		kept := w.places[i]
		w.remove(i)
		if kept.Kind = PlacePublished; !done {
			w.add(kept)
		}
	}
	if !w.moved {
		return LaneChange{}
	}
	return w.done()
}

// laneWork is a change of a lane under way.
type laneWork struct {
	*Lane
	places []Place // as they are now
	change LaneChange
	moved  bool // one that was there
}

// find returns the index of a place; -1: it is not there.
func (w *laneWork) find(is func(Place) bool) int { return slices.IndexFunc(w.places, is) }

func openAt(number int64) func(Place) bool {
	return func(p Place) bool { return p.Number == number && p.Kind == PlaceOpen }
}

// letterAt is for a dead letter at a position; an empty letter is any.
func letterAt(number int64, letter string) func(Place) bool {
	return func(p Place) bool {
		return p.Number == number && p.Kind != PlaceOpen && (letter == "" || p.Letter == letter)
	}
}

// block gives a message a position of its own, unless it has one.
func (w *laneWork) block(s LaneStep, v LaneView, number int64, now time.Time) int64 {
	p := Place{Kind: PlaceDied, Letter: v.Letter, Owner: s.Owner, Again: s.Redelivered,
		ID: printable.Cut(s.ID, MaxStoredID)}
	// of the two positions of a message whose nack never arrived, one counts
	twice := number == 0 && s.Redelivered && v.Before != "" && v.Before != s.Owner
	if s.Act == LaneEnter && !v.Died && !twice {
		p.Kind = PlaceBlocked
		w.change.Late++
	}
	if p.Number = number; number > 0 {
		w.removeLetters(number, p.Letter)
		w.moved = true
	} else {
		w.Last++
		if p.Number = w.Last; w.Open == 0 {
			w.First, w.Blocked = p.Number, now.Truncate(time.Millisecond)
		}
		w.Open++
		w.add(Place{Number: p.Number, Kind: PlaceOpen})
	}
	w.add(p)
	return p.Number
}

// shut closes a position.
func (w *laneWork) shut(number int64) {
	for _, p := range w.places {
		if p.Number == number && p.Kind == PlaceBlocked {
			w.change.Counted--
		}
	}
	w.remove(w.find(openAt(number)))
	if w.Open--; number == w.First {
		w.First = 0
	}
}

// count counts a place that is added or removed.
func (w *laneWork) count(p Place, by int64) {
	if p.Kind == PlaceBlocked && w.find(openAt(p.Number)) >= 0 {
		w.change.Counted += by
	}
}

func (w *laneWork) add(p Place) {
	w.places = append(w.places, p)
	w.count(p, 1)
	w.move(p, false)
}

func (w *laneWork) remove(i int) {
	p := w.places[i]
	w.count(p, -1)
	w.places = slices.Delete(slices.Clone(w.places), i, i+1)
	w.move(p, true)
	w.moved = true
}

func (w *laneWork) removeLetters(number int64, letter string) {
	for i := w.find(letterAt(number, letter)); i >= 0; i = w.find(letterAt(number, letter)) {
		w.remove(i)
	}
}

// move notes that a place is added or removed. The last move of a name stands.
func (w *laneWork) move(p Place, gone bool) {
	for _, m := range p.Moves(gone) {
		w.change.Moves = slices.DeleteFunc(w.change.Moves, func(of LaneMove) bool { return of.Name == m.Name })
		w.change.Moves = append(w.change.Moves, m)
	}
}

// done brings the document up to date, and returns the change.
func (w *laneWork) done() LaneChange {
	first, ids := int64(0), []string{} // of the positions that were read
	for _, p := range w.places {
		if p.Kind == PlaceOpen && (first == 0 || p.Number < first) {
			first = p.Number
		}
	}
	switch {
	case w.Open == 0:
		w.First, w.By = 0, ""
	case w.First == 0:
		w.First = first
	}
	for _, p := range w.places {
		if p.Number == w.First && (p.Kind == PlaceBlocked || p.Kind == PlaceDied) {
			ids = append(ids, p.ID)
		}
	}
	if w.Open > 0 && first == w.First {
		w.By = ""
		if len(ids) > 0 {
			w.By = slices.Min(ids)
		}
	}
	w.Writes++
	w.Moved += int64(flag(w.moved))
	w.change.Save = true
	return w.change
}

// Moves are the members of a place in the lane's set of places. Those by position have scores below 0, and those by
// letter above. So one page has the places from a position on, and another the positions of one letter, both ascending.
func (p Place) Moves(gone bool) []LaneMove {
	if p.Kind == PlaceOpen {
		return []LaneMove{{fmt.Sprintf("%s %d", PlaceOpen, p.Number), -p.Number, gone}}
	}
	return []LaneMove{
		{fmt.Sprintf("%s %d %s %s %d %s", p.Kind, p.Number, p.Letter, p.Owner, flag(p.Again), p.ID), -p.Number, gone},
		{fmt.Sprintf("%s %016d %s %d", p.Letter, MaxFence-p.Number, p.Owner, flag(p.Again)), letterScore(p.Letter), gone},
	}
}

// ParsePlace reads a member of a lane's set of places.
func ParsePlace(name string, score int64) Place {
	w := append(strings.SplitN(name, " ", 6), "", "", "", "", "")
	if score < 0 {
		return Place{Number: -score, Kind: PlaceKind(w[0]), Letter: w[2], Owner: w[3], Again: w[4] == "1", ID: w[5]}
	}
	return Place{Number: MaxFence - number(w[1]), Letter: w[0], Owner: w[2], Again: w[3] == "1"}
}

// PlacesFrom returns the member before all those at a position and later ones.
func PlacesFrom(number int64) (name string, score int64) { return "~", -number }

// PlacesOf returns the member before all those of a letter.
func PlacesOf(letter string) (name string, score int64) { return letter + "!", letterScore(letter) }

// letterScore is 1 to 2^52, by the hash that begins a letter.
func letterScore(letter string) int64 {
	n, _ := strconv.ParseInt(letter[:min(13, len(letter))], 16, 64)
	return n + 1
}

// EncodeLane writes the document of a lane.
func EncodeLane(l Lane) string {
	return fmt.Sprintf("%d %d %d %d %d %s %d %d %d %d %d %d %d\n%s%s", l.Since, l.Last, l.First, l.Open,
		l.Blocked.UnixMilli(), cmp.Or(l.Owner, "."), l.Number, l.Said.Code, l.Said.Position.Number, flag(l.Changed), l.Writes,
		l.Moved, len(l.Name), l.Name, l.By)
}

// DecodeLane reads the text of EncodeLane; false: it is none. An empty text is a lane that was never blocked.
func DecodeLane(text string) (l Lane, ok bool) {
	if text == "" {
		return Lane{}, true
	}
	line, names, ends := strings.Cut(text, "\n")
	w := strings.Split(line, " ")
	if !ends || len(w) != 13 || slices.ContainsFunc(w, func(word string) bool { return word == "" }) {
		return Lane{}, false
	}
	length := number(w[12])
	if length < 0 || length > int64(len(names)) {
		return Lane{}, false
	}
	l = Lane{Since: number(w[0]), Last: number(w[1]), First: number(w[2]), Open: number(w[3]), Blocked: millis(w[4]),
		Owner: word(w[5]), Number: number(w[6]), Changed: w[9] == "1", Writes: number(w[10]), Moved: number(w[11]),
		Name: names[:length], By: names[length:]}
	if l.Said.Code = LaneCode(number(w[7])); w[8] != "0" {
		l.Said.Position = Position{l.Since, number(w[8])}
	}
	return l, l.Since > 0
}

func flag(b bool) int {
	if b {
		return 1
	}
	return 0
}
