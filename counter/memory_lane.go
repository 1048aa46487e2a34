package counter

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/strikesmq/strikes/counter/rules"
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
	open    map[int64]bool
	letters map[letterAt]bookLetter
}

// letterAt names a dead letter of a lane and its position.
type letterAt struct {
	position int64
	name     string
}

type bookLetter struct {
	id, owner string
	again     bool
	published bool
}

func (b *laneBook) first() int64 {
	if len(b.open) == 0 {
		return 0
	}
	return slices.Min(slices.Collect(maps.Keys(b.open)))
}

// BlockedLanes is like Counter.BlockedLanes. It fails only if ctx has ended.
func (m *Memory) BlockedLanes(ctx context.Context, vhost, queue string) (n int, err error) {
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
	out := OwnedLanes{Owner: l.laneOwner}
	for _, b := range l.lanes {
		if len(b.open) > 0 {
			out.Blocked++
		}
	}
	return out, nil
}

// NextBlocked is like Counter.NextBlocked. It has all lanes on one page, and fails only if ctx has ended.
func (m *Memory) NextBlocked(ctx context.Context, vhost, queue string, after BlockedPage) (BlockedPage, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	page := BlockedPage{Last: true}
	for hash, b := range m.ledger(vhost, queue).lanes {
		if len(b.open) > 0 {
			page.Lanes = append(page.Lanes, hash)
		}
	}
	slices.Sort(page.Lanes)
	return page, ctx.Err()
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
		return LaneReply{Code: LaneUnknown}, nil
	case s.Owner:
	default:
		return LaneReply{Code: LaneUnowned}, nil
	}
	b := l.lane(s.Lane)
	if b == nil {
		b = &laneBook{name: printable.Cut(s.Lane, maxLane), since: now.UnixMicro(), open: map[int64]bool{},
			letters: map[letterAt]bookLetter{}}
	}
	switch {
	case b.owner != s.Owner:
	case b.number > s.Number || b.number == s.Number && b.changed:
		return LaneReply{Code: LaneUnowned}, nil
	case b.number == s.Number:
		return b.said, nil
	}
	b.owner, b.number, b.changed = s.Owner, s.Number, false
	code, position := b.step(s, now)
	if b.last > 0 {
		l.lanes[hashID(s.Lane)] = b
	}
	b.said = LaneReply{Code: code}
	if position > 0 {
		b.said.Position = Position{b.since, position}
	}
	return b.said, nil
}

func (l *ledger) lane(name string) *laneBook {
	if l.lanes == nil {
		l.lanes = map[string]*laneBook{}
	}
	return l.lanes[hashID(name)]
}

func (b *laneBook) step(s LaneStep, now time.Time) (LaneCode, int64) {
	position := s.Position.Number
	if s.Position.Since != b.since || position > b.last {
		position = 0
	}
	switch {
	case position > 0 && !b.open[position]:
		return LaneSuperseded, position
	case s.Act == LaneLeave:
		delete(b.open, position)
		return b.freeOr(LaneBlocked), position
	case s.Act == LaneEnter && position > 0 && position == b.first():
		return LaneRun, position
	case s.Act == LaneEnter && s.Position.Number == 0 && len(b.open) == 0:
		return LaneFree, 0
	}
	return LaneBlocked, b.block(s, position, now)
}

// block gives a message a position of its own, unless it carries one.
func (b *laneBook) block(s LaneStep, position int64, now time.Time) int64 {
	if position == 0 {
		if len(b.open) == 0 {
			b.held = now
		}
		b.last++
		position = b.last
		b.open[position] = true
	}
	b.letters[letterAt{position, member(s.ID, s.Generation)}] = bookLetter{id: printable.Cut(s.ID, rules.MaxStoredID),
		owner: s.Owner, again: s.Redelivered}
	return position
}

func (b *laneBook) freeOr(held LaneCode) LaneCode {
	if len(b.open) == 0 {
		return LaneFree
	}
	return held
}

// Lanes is like Admin.Lanes. It never fails.
func (m *Memory) Lanes(_ context.Context, vhost, queue string) ([]BlockedLane, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []BlockedLane
	for _, b := range m.ledger(vhost, queue).lanes {
		if len(b.open) > 0 {
			out = append(out, BlockedLane{Lane: b.name, Since: b.held.Truncate(time.Millisecond).UTC(), Messages: len(b.open),
				By: b.state().Dead()[b.first()]})
		}
	}
	slices.SortFunc(out, bySince)
	return out, nil
}

func bySince(a, b BlockedLane) int {
	return cmp.Or(a.Since.Compare(b.Since), strings.Compare(a.Lane, b.Lane))
}

func (b *laneBook) state() *LaneState {
	open := slices.Sorted(maps.Keys(b.open))
	s := &LaneState{Since: b.since, Last: b.last, Messages: len(open), Open: open[:min(positionsRead, len(open))],
		names: map[string][]blockedAt{}}
	for at, l := range b.letters {
		if at.position <= s.lastOpen() {
			s.letters = append(s.letters, blocked{at.position, at.name, l.id, l.published})
			s.names[at.name] = nil
		}
	}
	s.sort()
	for at, l := range b.letters {
		if _, listed := s.names[at.name]; listed {
			s.names[at.name] = append(s.names[at.name], blockedAt{at.position, l.owner, l.again})
		}
	}
	for name, at := range s.names {
		slices.SortFunc(at, func(a, b blockedAt) int { return cmp.Compare(a.position, b.position) })
		s.names[name] = at[:min(namesRead, len(at))]
	}
	return s
}

// Lane is like Admin.Lane. It fails only on a lane that is not blocked.
func (m *Memory) Lane(_ context.Context, vhost, queue, lane string) (*LaneState, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	b := m.ledger(vhost, queue).lane(lane)
	if b == nil || len(b.open) == 0 {
		return nil, laneRefused("lane", queue, lane)
	}
	return b.state(), nil
}

// NotePublishing is like Admin.NotePublishing. It never fails.
func (m *Memory) NotePublishing(_ context.Context, vhost, queue, lane string, letters []LaneLetter) error {
	m.eachLetter(vhost, queue, lane, letters, func(b *laneBook, at letterAt) {
		kept := b.letters[at]
		kept.published = true
		b.letters[at] = kept
	})
	return nil
}

// NoteReplayed is like Admin.NoteReplayed. It never fails.
func (m *Memory) NoteReplayed(_ context.Context, vhost, queue, lane string, letters []LaneLetter) error {
	m.eachLetter(vhost, queue, lane, letters, func(b *laneBook, at letterAt) { delete(b.letters, at) })
	return nil
}

// eachLetter calls note for each of the letters that the lane expects.
func (m *Memory) eachLetter(vhost, queue, lane string, letters []LaneLetter, note func(*laneBook, letterAt)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	b := m.ledger(vhost, queue).lane(lane)
	if b == nil {
		return
	}
	for _, l := range letters {
		at := letterAt{l.Position.Number, member(l.ID, l.Generation)}
		if _, kept := b.letters[at]; kept {
			note(b, at)
		}
	}
}

// DropPositions is like Admin.DropPositions. It never fails.
func (m *Memory) DropPositions(_ context.Context, vhost, queue, lane string, positions []Position) (released bool,
	err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	b := m.ledger(vhost, queue).lane(lane)
	if b == nil {
		return true, nil
	}
	for _, p := range positions {
		if p.Since != b.since || !b.open[p.Number] {
			continue
		}
		delete(b.open, p.Number)
		b.changed = true
		maps.DeleteFunc(b.letters, func(at letterAt, _ bookLetter) bool { return at.position == p.Number })
	}
	return len(b.open) == 0, nil
}
