package counter

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
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
	counted   bool // it had no attempt, and has no tombstone
	at        time.Time
}

func (b *laneBook) first() int64 {
	if len(b.open) == 0 {
		return 0
	}
	return slices.Min(slices.Collect(maps.Keys(b.open)))
}

// memoryLanes keeps lanes in this process alone.
type memoryLanes struct {
	store  *memoryStore
	mu     sync.Mutex
	queues map[Queue]*laneShelf
}

// laneShelf has the lanes of a queue.
type laneShelf struct {
	owner string
	books map[string]*laneBook // by the hash of their names
}

// shelf returns that of a queue. The caller holds mu.
func (m *memoryLanes) shelf(of Queue) *laneShelf {
	if m.queues == nil {
		m.queues = map[Queue]*laneShelf{}
	}
	if m.queues[of] == nil {
		m.queues[of] = &laneShelf{books: map[string]*laneBook{}}
	}
	return m.queues[of]
}

// blocked are the hashes of the blocked lanes.
func (s *laneShelf) blocked() (out []string) {
	for hash, b := range s.books {
		if len(b.open) > 0 {
			out = append(out, hash)
		}
	}
	slices.Sort(out)
	return out
}

func (m *memoryLanes) blocked(ctx context.Context, of Queue) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.shelf(of).blocked()), ctx.Err()
}

func (m *memoryLanes) own(ctx context.Context, of Queue, before, owner string) (OwnedLanes, error) {
	if err := ctx.Err(); err != nil {
		return OwnedLanes{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.shelf(of)
	if owner != "" && s.owner == before {
		s.owner = owner
	}
	return OwnedLanes{Owner: s.owner, Blocked: len(s.blocked())}, nil
}

// next has all lanes on one page.
func (m *memoryLanes) next(ctx context.Context, of Queue, _ BlockedPage) (BlockedPage, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return BlockedPage{Last: true, Lanes: m.shelf(of).blocked()}, ctx.Err()
}

func (m *memoryLanes) step(ctx context.Context, s LaneStep) (LaneReply, error) {
	if err := ctx.Err(); err != nil {
		return LaneReply{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	l, now := m.shelf(Queue{s.VHost, s.Queue}), time.Now()
	switch l.owner {
	case "":
		return LaneReply{Code: LaneUnknown}, nil
	case s.Owner:
	default:
		return LaneReply{Code: LaneUnowned}, nil
	}
	b := l.books[hashID(s.Lane)]
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
	died := m.store.has(Queue{s.VHost, s.Queue}, setDead, member(s.ID, s.Generation))
	code, position := b.step(s, died, now)
	if b.last > 0 {
		l.books[hashID(s.Lane)] = b
	}
	b.said = LaneReply{Code: code}
	if position > 0 {
		b.said.Position = Position{b.since, position}
	}
	return b.said, nil
}

func (b *laneBook) step(s LaneStep, died bool, now time.Time) (LaneCode, int64) {
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
	return LaneBlocked, b.block(s, position, died, now)
}

// block gives a message a position of its own, unless it carries one.
func (b *laneBook) block(s LaneStep, position int64, died bool, now time.Time) int64 {
	name, counted := member(s.ID, s.Generation), s.Act == LaneEnter && !died
	if position == 0 {
		first, by := int64(math.MaxInt64), s.Owner
		for at, l := range b.letters {
			if at.name == name && at.position < first {
				first, by = at.position, l.owner
			}
		}
		// of the two positions of a message whose nack never arrived, one counts
		counted = counted && (by == s.Owner || !s.Redelivered)
		if len(b.open) == 0 {
			b.held = now
		}
		b.last++
		position = b.last
		b.open[position] = true
	}
	b.letters[letterAt{position, name}] = bookLetter{id: printable.Cut(s.ID, rules.MaxStoredID), owner: s.Owner,
		again: s.Redelivered, counted: counted, at: now}
	return position
}

func (b *laneBook) freeOr(held LaneCode) LaneCode {
	if len(b.open) == 0 {
		return LaneFree
	}
	return held
}

func (m *memoryLanes) list(ctx context.Context, of Queue, skip, most int) (out []BlockedLane, read int, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, b := range m.shelf(of).books {
		if len(b.open) > 0 {
			out = append(out, BlockedLane{Lane: b.name, Since: b.held.Truncate(time.Millisecond).UTC(), Messages: len(b.open),
				By: b.state().Dead()[b.first()]})
		}
	}
	slices.SortFunc(out, bySince)
	out = out[min(skip, len(out)):]
	out = out[:min(most, len(out))]
	return out, len(out), ctx.Err()
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

func (m *memoryLanes) read(ctx context.Context, of Queue, lane string) (*LaneState, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	b := m.shelf(of).books[hashID(lane)]
	if b == nil {
		return &LaneState{}, ctx.Err()
	}
	return b.state(), ctx.Err()
}

func (m *memoryLanes) note(ctx context.Context, of Queue, lane, act string, letters []LaneLetter) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	b := m.shelf(of).books[hashID(lane)]
	if b == nil {
		return ctx.Err()
	}
	for _, l := range letters {
		at := letterAt{l.Position.Number, member(l.ID, l.Generation)}
		kept, known := b.letters[at]
		if kept.published = true; known {
			b.letters[at] = kept
		}
		if act == lettersReplayed {
			delete(b.letters, at)
		}
	}
	return ctx.Err()
}

func (m *memoryLanes) drop(ctx context.Context, of Queue, lane string, positions []Position) (left int, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	b := m.shelf(of).books[hashID(lane)]
	if b == nil {
		return 0, ctx.Err()
	}
	for _, p := range positions {
		if p.Since != b.since || !b.open[p.Number] {
			continue
		}
		delete(b.open, p.Number)
		b.changed = true
		maps.DeleteFunc(b.letters, func(at letterAt, _ bookLetter) bool { return at.position == p.Number })
	}
	return len(b.open), ctx.Err()
}

func (m *memoryLanes) letters(ctx context.Context, of Queue, recent time.Duration) (out Blocked, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.shelf(of)
	out.Lanes = int64(len(s.blocked()))
	for _, b := range s.books {
		for at, l := range b.letters {
			if l.counted && !l.published && b.open[at.position] {
				out.Count++
				out.Recent += int64(flag(time.Since(l.at) <= recent))
			}
		}
	}
	return out, ctx.Err()
}
