package counter

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/strikesmq/strikes/internal/printable"
)

// laneBook is what a Memory keeps of a lane: see scripts/lane.lua.
type laneBook struct {
	name    string
	since   int64
	last    int64
	held    time.Time
	owner   string // of the last step
	number  int64
	said    LaneReply // to it
	changed bool      // by an operator, since then
	base    int64     // the last place that another owner gave
	open    map[int64]bool
	letters map[string]parked
}

// parked is a dead letter of a lane.
type parked struct {
	place int64
	id    string
}

func (b *laneBook) first() int64 {
	if len(b.open) == 0 {
		return 0
	}
	return slices.Min(slices.Collect(maps.Keys(b.open)))
}

// HeldLanes is like Counter.HeldLanes. It fails only if ctx has ended.
func (m *Memory) HeldLanes(ctx context.Context, vhost, queue string) (n int, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, b := range m.ledger(vhost, queue).lanes {
		if len(b.open) > 0 {
			n++
		}
	}
	return n, ctx.Err()
}

// OwnLanes is like Counter.OwnLanes. It fails only on invalid arguments.
func (m *Memory) OwnLanes(ctx context.Context, vhost, queue, before, owner string) (OwnedLanes, error) {
	if err := checkOwner(queue, cmp.Or(owner, "-")); err != nil {
		return OwnedLanes{}, err
	}
	if err := ctx.Err(); err != nil {
		return OwnedLanes{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.ledger(vhost, queue)
	if owner != "" && l.laneOwner == before {
		l.laneOwner = owner
	}
	out := OwnedLanes{Owner: l.laneOwner, held: map[string]bool{}}
	for hash, b := range l.lanes {
		if len(b.open) > 0 {
			out.held[hash] = true
		}
	}
	return out, nil
}

// StepLane is like Counter.StepLane. It fails only on invalid arguments.
func (m *Memory) StepLane(ctx context.Context, s LaneStep) (LaneReply, error) {
	if err := s.validate(); err != nil {
		return LaneReply{}, err
	}
	if err := ctx.Err(); err != nil {
		return LaneReply{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	l, now := m.ledger(s.VHost, s.Queue), time.Now()
	switch l.laneOwner {
	case "":
		return LaneReply{Verdict: LaneUnknown}, nil
	case s.Owner:
	default:
		return LaneReply{Verdict: LaneUnowned}, nil
	}
	b := l.lane(s.Lane)
	if b == nil {
		b = &laneBook{name: printable.Cut(s.Lane, maxLane), since: now.UnixMicro(), open: map[int64]bool{}, letters: map[string]parked{}}
	}
	switch {
	case b.owner != s.Owner:
		b.base = b.last
	case b.number > s.Number || b.number == s.Number && b.changed:
		return LaneReply{Verdict: LaneUnowned}, nil
	case b.number == s.Number:
		return b.said, nil
	}
	b.owner, b.number, b.changed = s.Owner, s.Number, false
	verdict, place := b.step(s, now)
	if b.last > 0 {
		l.lanes[hashID(s.Lane)] = b
	}
	b.said = LaneReply{Verdict: verdict}
	if place > 0 {
		b.said.Place = Place{b.since, place}
	}
	return b.said, nil
}

func (l *ledger) lane(name string) *laneBook {
	if l.lanes == nil {
		l.lanes = map[string]*laneBook{}
	}
	return l.lanes[hashID(name)]
}

func (b *laneBook) step(s LaneStep, now time.Time) (LaneVerdict, int64) {
	place := s.Place.Number
	if s.Place.Since != b.since || place > b.last {
		place = 0
	}
	switch {
	case place > 0 && !b.open[place]:
		return LaneStale, place
	case s.Act == LaneLeave:
		delete(b.open, place)
		return b.freeOr(LaneHeld), place
	case s.Act == LaneEnter && place > 0 && place == b.first():
		return LaneRun, place
	case s.Act == LaneEnter && s.Place.Number == 0 && len(b.open) == 0:
		return LaneFree, 0
	}
	return LaneHeld, b.park(s, place, now)
}

// park gives a message its place, unless it has one.
func (b *laneBook) park(s LaneStep, place int64, now time.Time) int64 {
	if before, ok := b.letters[s.letter()]; place == 0 && ok && b.open[before.place] {
		if before.place > b.base {
			place = before.place
		} else { // the nack of that owner never arrived, and its ack of a message before this one may not have arrived either
			delete(b.open, before.place)
		}
	}
	if place == 0 {
		if len(b.open) == 0 {
			b.held = now
		}
		b.last++
		place = b.last
		b.open[place] = true
	}
	b.letters[s.letter()] = parked{place, printable.Cut(s.ID, maxStoredID)}
	return place
}

func (b *laneBook) freeOr(held LaneVerdict) LaneVerdict {
	if len(b.open) == 0 {
		return LaneFree
	}
	return held
}

// Lanes is like Admin.Lanes. It never fails.
func (m *Memory) Lanes(_ context.Context, vhost, queue string) ([]HeldLane, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []HeldLane
	for _, b := range m.ledger(vhost, queue).lanes {
		if len(b.open) > 0 {
			out = append(out, HeldLane{Lane: b.name, Since: b.held.Truncate(time.Millisecond).UTC(), Messages: len(b.open), By: b.state().idAt(b.first())})
		}
	}
	slices.SortFunc(out, bySince)
	return out, nil
}

func bySince(a, b HeldLane) int {
	return cmp.Or(a.Since.Compare(b.Since), strings.Compare(a.Lane, b.Lane))
}

func (b *laneBook) state() *LaneState {
	s := &LaneState{Since: b.since, Last: b.last, Open: slices.Sorted(maps.Keys(b.open)), letters: map[string]parked{}}
	maps.Copy(s.letters, b.letters)
	return s
}

// Lane is like Admin.Lane. It fails only on a lane that is not held.
func (m *Memory) Lane(_ context.Context, vhost, queue, lane string) (*LaneState, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	b := m.ledger(vhost, queue).lane(lane)
	if b == nil || len(b.open) == 0 {
		return nil, laneRefused("lane", queue, lane)
	}
	return b.state(), nil
}

// NoteReplayed is like Admin.NoteReplayed. It never fails.
func (m *Memory) NoteReplayed(_ context.Context, vhost, queue, lane string, letters []Message) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if b := m.ledger(vhost, queue).lane(lane); b != nil {
		for _, l := range letters {
			delete(b.letters, member(l.ID, l.Generation))
		}
	}
	return nil
}

// DropPlaces is like Admin.DropPlaces. It never fails.
func (m *Memory) DropPlaces(_ context.Context, vhost, queue, lane string, places []Place) (released bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	b := m.ledger(vhost, queue).lane(lane)
	if b == nil {
		return true, nil
	}
	for _, p := range places {
		if p.Since != b.since || !b.open[p.Number] {
			continue
		}
		delete(b.open, p.Number)
		b.changed = true
		maps.DeleteFunc(b.letters, func(_ string, l parked) bool { return l.place == p.Number })
	}
	return len(b.open) == 0, nil
}
