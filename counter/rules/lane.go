package rules

import (
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

// ParsePosition reads the text of String. It returns the zero value for any other text.
func ParsePosition(s string) Position {
	since, number, _ := strings.Cut(s, ".")
	p := Position{}
	var errSince, errNumber error
	p.Since, errSince = strconv.ParseInt(since, 10, 64)
	p.Number, errNumber = strconv.ParseInt(number, 10, 64)
	if errSince != nil || errNumber != nil || p.Since < 1 || p.Number < 1 || p.Since > MaxFence || p.Number > MaxFence {
		return Position{}
	}
	return p
}

// LaneAct is a consumer's notice to the store about a message of a lane.
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
	Message            // names the record; the ID of one without an id is its fingerprint
	Partition   string // of the queue, if the lane is that of a partition; else empty
	Lane        string
	First       string // the generation without its deaths in the queue. It names the dead letter
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

// Lane is the document of a lane in the store. A lane is blocked while one of its positions is open. Only the message
// at the first open position may run. All others are blocked: they are dead-lettered without an attempt. So the order
// of the positions is the order of the attempts, whatever operators publish, however often, and whenever.
//
// A message without a position gets a new one, behind all others. So a second message of the same id never takes the
// position of the first. A message whose nack never arrived gets two: a replay finds one dead letter for both, and
// gives up the older. A dead letter that another program has moved back keeps its position.
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
	PlacePublished PlaceKind = "a" // a dead letter that an operator has published again, and takes off
)

// LaneMember is a member of a lane's set of places.
type LaneMember struct {
	Name  string
	Score int64
}

// LaneChange has the changes of a step besides those of the Lane. The zero value is no change.
type LaneChange struct {
	Save      bool
	Add, Gone []LaneMember
	Counted   int64 // of the dead letters at open positions that have no tombstone: the change of their number
	Late      int64 // how many of them were added
}

// LaneView has the facts that a step reads besides the Lane.
type LaneView struct {
	Owner  string  // of the lanes of the queue; empty: none
	Letter string  // the name of the message's record
	Died   bool    // the message has a tombstone
	Places []Place // those at Lane.Needs, and up to the next open position
	Same   []Place // those with this Letter, ordered by position, if Needs asks for them
}

// Needs returns the number of the position whose places a step reads, 0 for none, and whether it reads Same. If the
// message has died before, the step then also reads the places at the positions of Same.
func (l *Lane) Needs(s LaneStep) (number int64, same bool) {
	number = l.carried(s)
	isNew := number == 0 && s.Act == LaneEnter && (l.IsBlocked() || s.Position.Number > 0)
	if !l.IsBlocked() || number < l.First || number == l.First && s.Act == LaneEnter {
		number = 0
	}
	return number, isNew && (s.Redelivered || s.HasDied())
}

// HasDied reports whether the message was a dead letter of the queue before.
func (s LaneStep) HasDied() bool { return s.Generation != s.First }

// movedBack returns the number of the message's position: it was a dead letter of the lane, and another program has
// moved it back. It is 0 if the lane expects no such dead letter. It is also 0 if the lane expects several, which may
// be different messages of one id.
func (v LaneView) movedBack(s LaneStep) (number int64) {
	if expected := v.expected(); s.HasDied() && len(expected) == 1 {
		number = expected[0]
	}
	return number
}

// ExpectsSeveral reports whether the lane expects several dead letters with this Letter. Then a step needs none of the
// later Places at the positions of Same.
func (v LaneView) ExpectsSeveral() bool { return len(v.expected()) > 1 }

// expected returns the open positions of the dead letters with this Letter that were not published.
func (v LaneView) expected() (numbers []int64) {
	for _, p := range v.Places {
		if p.Letter == v.Letter && p.Kind != PlacePublished && slices.ContainsFunc(v.Places, openAt(p.Number)) {
			numbers = append(numbers, p.Number)
		}
	}
	return numbers
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
	number, reply, after, late := l.carried(s), LaneReply{Code: LaneBlocked}, slices.Clone(v.Places), int64(0)
	if number == 0 {
		number = v.movedBack(s)
	}
	isOpen := number == l.First || slices.ContainsFunc(after, openAt(number))
	switch {
	case number > 0 && !isOpen:
		reply.Code = LaneSuperseded
	case s.Act == LaneLeave:
		after = slices.DeleteFunc(after, func(old Place) bool {
			return old.Number == number && (old.Kind == PlaceOpen || old.Letter == v.Letter)
		})
		if len(after) < len(v.Places) && l.Open == 1 || !l.IsBlocked() {
			reply.Code = LaneFree
		}
	case s.Act == LaneEnter && number > 0 && number == l.First:
		reply.Code = LaneRun
	case s.Act == LaneEnter && s.Position.Number == 0 && !l.IsBlocked():
		reply.Code = LaneFree
	default:
		p := v.place(s, number)
		after = slices.DeleteFunc(after, func(old Place) bool { return old.Number == number && old.Letter == p.Letter })
		if number == 0 {
			l.Last++
			if number = l.Last; !l.IsBlocked() {
				l.Blocked = now.Truncate(time.Millisecond)
			}
			after = append(after, Place{Number: number, Kind: PlaceOpen})
		}
		p.Number = number
		if after = append(after, p); p.Kind == PlaceBlocked {
			late = 1
		}
	}
	if l.Last == 0 {
		return reply, LaneChange{}
	}
	if number > 0 {
		reply.Position = Position{l.Since, number}
	}
	l.Name, l.Owner, l.Number, l.Said, l.Changed = s.Lane, s.Owner, s.Number, reply, false
	change := l.change(v.Places, after)
	change.Late = late
	return reply, change
}

// place returns that of a message which is blocked at a position; at 0 it gets a new one.
func (v LaneView) place(s LaneStep, number int64) Place {
	p := Place{Number: number, Kind: PlaceDied, Letter: v.Letter, Owner: s.Owner, Again: s.Redelivered,
		ID: printable.Cut(s.ID, MaxStoredID)}
	// of the two positions of a message whose nack never arrived, one counts
	twice := number == 0 && s.Redelivered && len(v.Same) > 0 && v.Same[0].Owner != s.Owner
	if s.Act == LaneEnter && !v.Died && !twice {
		p.Kind = PlaceBlocked
	}
	return p
}

// Drop gives up the messages at some positions, whose places it gets.
func (l *Lane) Drop(positions []Position, places []Place) LaneChange {
	dropped := map[int64]bool{}
	for _, p := range positions {
		dropped[p.Number] = dropped[p.Number] || p.Since == l.Since && slices.ContainsFunc(places, openAt(p.Number))
	}
	after := slices.DeleteFunc(slices.Clone(places), func(p Place) bool { return dropped[p.Number] })
	if len(after) == len(places) {
		return LaneChange{}
	}
	l.Changed = true
	return l.change(places, after)
}

// Publish notes that dead letters were published again. If done, they are off the dead-letter queue. Else they are
// about to be taken off. It gets the places at their positions.
func (l *Lane) Publish(letters []Place, done bool, places []Place) LaneChange {
	noted, after := map[Place]bool{}, []Place{}
	for _, p := range letters {
		noted[Place{Number: p.Number, Letter: p.Letter}] = true
	}
	for _, p := range places {
		if !noted[Place{Number: p.Number, Letter: p.Letter}] {
			after = append(after, p)
		} else if p.Kind = PlacePublished; !done {
			after = append(after, p)
		}
	}
	return l.change(places, after)
}

func openAt(number int64) func(Place) bool {
	return func(p Place) bool { return p.Number == number && p.Kind == PlaceOpen }
}

// change brings the document up to date with the places that were read, and returns the change.
func (l *Lane) change(before, after []Place) LaneChange {
	was, is, c := membersOf(before), membersOf(after), LaneChange{Save: true, Counted: counted(after) - counted(before)}
	for name, score := range was {
		if _, stays := is[name]; !stays {
			c.Gone = append(c.Gone, LaneMember{name, score})
		}
	}
	for name, score := range is {
		if _, was := was[name]; !was {
			c.Add = append(c.Add, LaneMember{name, score})
		}
	}
	if l.Writes++; len(before) > 0 && len(c.Add)+len(c.Gone) > 0 {
		l.Moved++
	}
	open := func(places []Place) (all []int64) {
		for _, p := range places {
			if p.Kind == PlaceOpen {
				all = append(all, p.Number)
			}
		}
		return all
	}
	had, has := open(before), open(after)
	if l.Open += int64(len(has) - len(had)); l.First == 0 || slices.Contains(had, l.First) {
		if l.First = 0; len(has) > 0 {
			l.First = slices.Min(has)
		}
		l.By = ""
	}
	for _, p := range after {
		if p.Number == l.First && (p.Kind == PlaceBlocked || p.Kind == PlaceDied) && (l.By == "" || p.ID < l.By) {
			l.By = p.ID
		}
	}
	return c
}

// counted counts the dead letters at open positions that have no tombstone.
func counted(places []Place) (n int64) {
	for _, p := range places {
		if p.Kind == PlaceBlocked && slices.ContainsFunc(places, openAt(p.Number)) {
			n++
		}
	}
	return n
}

func membersOf(places []Place) map[string]int64 {
	all := map[string]int64{}
	for _, p := range places {
		for _, m := range p.Members() {
			all[m.Name] = m.Score
		}
	}
	return all
}

// Members are those of a place in the lane's set of places. Those by position have scores below 0, and those by letter
// above. So one page has the places from a position on, and another the positions of one letter, both ascending.
func (p Place) Members() []LaneMember {
	if p.Kind == PlaceOpen {
		return []LaneMember{{fmt.Sprintf("%s %d", PlaceOpen, p.Number), -p.Number}}
	}
	return []LaneMember{
		{fmt.Sprintf("%s %d %s %s %t %s", p.Kind, p.Number, p.Letter, p.Owner, p.Again, p.ID), -p.Number},
		{fmt.Sprintf("%s %016d %s %t", p.Letter, MaxFence-p.Number, p.Owner, p.Again), letterScore(p.Letter)},
	}
}

// ParsePlace reads a member of a lane's set of places.
func ParsePlace(m LaneMember) Place {
	w := append(strings.SplitN(m.Name, " ", 6), "", "", "", "", "")
	if m.Score < 0 {
		return Place{Number: -m.Score, Kind: PlaceKind(w[0]), Letter: w[2], Owner: w[3], Again: w[4] == "true", ID: w[5]}
	}
	return Place{Number: MaxFence - number(w[1]), Letter: w[0], Owner: w[2], Again: w[3] == "true"}
}

// PlacesFrom returns the member before all those at a position and later ones.
func PlacesFrom(number int64) LaneMember { return LaneMember{"~", -number} }

// PlacesOf returns the member before all those of a letter.
func PlacesOf(letter string) LaneMember { return LaneMember{letter + "!", letterScore(letter)} }

// letterScore is 1 to 2^52, by the hash that begins a letter.
func letterScore(letter string) int64 {
	n, _ := strconv.ParseInt(letter[:min(13, len(letter))], 16, 64)
	return n + 1
}

const laneFormat = "%d %d %d %d %d %s %d %d %d %t %d %d %d"

// EncodeLane writes the document of a lane.
func EncodeLane(l Lane) string {
	return fmt.Sprintf(laneFormat+"\n%s%s", l.Since, l.Last, l.First, l.Open, l.Blocked.UnixMilli(), l.Owner, l.Number,
		l.Said.Code, l.Said.Position.Number, l.Changed, l.Writes, l.Moved, len(l.Name), l.Name, l.By)
}

// DecodeLane reads the text of EncodeLane; false: it is none. An empty text is a lane that was never blocked.
func DecodeLane(text string) (l Lane, ok bool) {
	line, names, _ := strings.Cut(text, "\n")
	blocked, length := int64(0), 0
	_, err := fmt.Sscanf(line, laneFormat, &l.Since, &l.Last, &l.First, &l.Open, &blocked, &l.Owner, &l.Number,
		&l.Said.Code, &l.Said.Position.Number, &l.Changed, &l.Writes, &l.Moved, &length)
	if err != nil || length < 0 || length > len(names) {
		return Lane{}, text == ""
	}
	l.Blocked, l.Name, l.By = Instant(blocked), names[:length], names[length:]
	if l.Said.Position.Number > 0 {
		l.Said.Position.Since = l.Since
	}
	return l, true
}
