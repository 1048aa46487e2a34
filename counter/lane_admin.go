package counter

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/strikesmq/strikes/counter/rules"
	"github.com/strikesmq/strikes/internal/panics"
)

// BlockedLane is a lane of a queue that is blocked: its messages are dead-lettered without an attempt until those
// before them are handled or dropped.
type BlockedLane struct {
	Lane     string    // its name, of which the store keeps 1 KiB
	By       string    // id or fingerprint of the message that blocks it now; empty if that was replayed
	Since    time.Time // by the store's clock
	Messages int       // not handled, the one that blocks the lane included
}

// Lanes returns the blocked lanes of a queue, longest blocked first, and how many are blocked. The parameter most
// limits how many it returns. Those that were blocked in the same millisecond have a fixed order. It reads a page of
// lanes at a time, so that none occupies the store for long, and omits lanes that expired.
func (a *Admin) Lanes(ctx context.Context, vhost, queue string, most int) (lanes []BlockedLane, all int, err error) {
	defer func() { err = failed("lanes", queue, err) }()
	of := Queue{vhost, queue}
	all, err = a.blockedLanes(ctx, of)
	if err != nil || all == 0 || most < 1 {
		return nil, all, err
	}
	for found, err := range a.pages(ctx, of, setLanes, Entry{}, min(most, page)) {
		if err != nil {
			return nil, 0, err
		}
		_, docs, err := a.store.Load(ctx, of, namesOf(docLane, found)...)
		if err != nil {
			return nil, 0, err
		}
		for _, d := range docs {
			l, err := a.decodeLane(of, d)
			if err != nil {
				return nil, 0, err
			}
			if l.IsBlocked() {
				lanes = append(lanes, BlockedLane{Lane: l.Name, By: l.By, Since: l.Blocked, Messages: int(l.Open)})
			}
			if len(lanes) == most {
				return lanes, all, nil
			}
		}
	}
	return lanes, all, nil
}

const (
	// positionsRead is how many open positions of a lane Lane reads, which occupies the store for a few ms.
	positionsRead = 500
	// lettersRead is how many dead letters of these it reads. A position most often has one.
	lettersRead = 1000
	// namesRead is how many positions of one dead letter it reads. Only one that was published again and again has more
	// than two.
	namesRead = 32
)

// Lane returns the state of a blocked lane: its first 500 open positions. It returns an error that wraps ErrNotBlocked
// for any other.
func (a *Admin) Lane(ctx context.Context, vhost, queue, lane string) (*LaneState, error) {
	s, err := a.readLane(ctx, Queue{vhost, queue}, hashID(lane))
	if err != nil {
		return nil, failed("lane", queue, err)
	}
	if len(s.Open) == 0 {
		return nil, fmt.Errorf("counter: lane, queue %q, lane %q: %w", queue, lane, ErrNotBlocked)
	}
	return s, nil
}

// readLane reads a lane. If its first places change meanwhile, it begins again.
func (c *client) readLane(ctx context.Context, of Queue, hash string) (*LaneState, error) {
	for {
		l, err := c.loadLane(ctx, of, hash)
		if err != nil || !l.IsBlocked() {
			return &LaneState{}, err
		}
		s, err := c.readPlaces(ctx, of, hash, l)
		if err != nil {
			return nil, err
		}
		now, err := c.loadLane(ctx, of, hash)
		if err != nil || now.Since == l.Since && now.Moved == l.Moved {
			return s, err
		}
	}
}

func (c *client) loadLane(ctx context.Context, of Queue, hash string) (rules.Lane, error) {
	_, docs, err := c.store.Load(ctx, of, docLane+hash)
	if err != nil {
		return rules.Lane{}, err
	}
	return c.decodeLane(of, docs[0])
}

// readPlaces reads the first open positions, up to the first whose letters were not all read, and the letters of these
// and of positions before them.
func (c *client) readPlaces(ctx context.Context, of Queue, hash string, l rules.Lane) (*LaneState, error) {
	const most = positionsRead + lettersRead
	set := placesOf(hash, l.Since)
	before, err := c.store.Page(ctx, of, set, Entry(rules.PlacesFrom(1)), lettersRead)
	if err != nil {
		return nil, err
	}
	found, err := c.store.Page(ctx, of, set, Entry(rules.PlacesFrom(l.First)), most)
	if err != nil {
		return nil, err
	}
	s, end := &LaneState{Since: l.Since, Last: l.Last, Messages: int(l.Open)}, int64(math.MaxInt64)
	if len(found) == most {
		end = max(-found[most-1].Score, l.First+1)
	}
	var places []rules.Place
	for i, e := range slices.Concat(before, found) {
		p := rules.ParsePlace(rules.LaneMember(e))
		if p.Kind == rules.PlaceOpen && p.Number < end && len(s.Open) < positionsRead && i >= len(before) {
			s.Open = append(s.Open, p.Number)
		}
		if p.Kind != rules.PlaceOpen && (i >= len(before) || p.Number < l.First) {
			places = append(places, p)
		}
	}
	names := map[string]bool{}
	for _, p := range places {
		if p.Number <= s.lastOpen() {
			s.letters = append(s.letters, p)
			names[p.Letter] = true
		}
	}
	s.names, err = c.positionsOf(ctx, of, set, slices.Collect(maps.Keys(names)))
	return s, err
}

// positionsOf reads the positions of letters, each in a round trip, some at the same time.
func (c *client) positionsOf(ctx context.Context, of Queue, set string, letters []string) (map[string][]rules.Place,
	error) {
	found, out := make([][]rules.Place, len(letters)), map[string][]rules.Place{}
	var reading panics.Group
	reading.SetLimit(8)
	for i, letter := range letters {
		reading.Go(func() (err error) {
			found[i], err = c.placesOfLetter(ctx, of, set, letter, namesRead)
			return err
		})
	}
	err := reading.Wait()
	for i, letter := range letters {
		out[letter] = found[i]
	}
	return out, err
}

// LaneLetter is a dead letter of a lane.
type LaneLetter struct {
	Message
	Position Position
}

// NotePublished notes that dead letters of a lane were published again, and are about to be taken off. Call it between
// the two. Without it, if the replay is cut off, the next one takes messages that are back in the queue for lost. If it
// is called before the publish, the next replay waits for messages that are not in the queue. It is safe to repeat.
func (a *Admin) NotePublished(ctx context.Context, vhost, queue, lane string, letters []LaneLetter) error {
	return a.noteLetters(ctx, "published", vhost, queue, lane, letters, false)
}

// NoteReplayed notes that dead letters of a lane were published again and are off the dead-letter queue. It is safe to
// repeat. If it is not called, they count as duplicates if they are found again.
func (a *Admin) NoteReplayed(ctx context.Context, vhost, queue, lane string, letters []LaneLetter) error {
	return a.noteLetters(ctx, "replayed", vhost, queue, lane, letters, true)
}

func (a *Admin) noteLetters(ctx context.Context, doing, vhost, queue, lane string, letters []LaneLetter,
	replayed bool) error {
	for some := range slices.Chunk(letters, positionsRead) {
		at, places := make([]int64, len(some)), make([]rules.Place, len(some))
		for i, l := range some {
			at[i] = l.Position.Number
			places[i] = rules.Place{Number: at[i], Letter: member(l.ID, l.Generation)}
		}
		by := func(l *rules.Lane, kept []rules.Place) rules.LaneChange { return l.Publish(places, replayed, kept) }
		if err := a.changeLane(ctx, Queue{vhost, queue}, lane, at, by); err != nil {
			return failed("note "+doing, queue, err)
		}
	}
	return nil
}

// DropPositions gives up the messages at these positions of a lane: those after them need not wait for them any more.
// It reports whether the lane is released, because no other message blocks it. Positions that are not open are ignored,
// so it is safe to repeat.
func (a *Admin) DropPositions(ctx context.Context, vhost, queue, lane string, positions []Position) (released bool,
	err error) {
	for {
		some := positions[:min(positionsRead, len(positions))]
		positions = positions[len(some):]
		at := make([]int64, len(some))
		for i, p := range some {
			at[i] = p.Number
		}
		released = true
		err := a.changeLane(ctx, Queue{vhost, queue}, lane, at, func(l *rules.Lane, places []rules.Place) rules.LaneChange {
			change := l.Drop(some, places)
			released = !l.IsBlocked()
			return change
		})
		if err != nil {
			return false, failed("drop positions", queue, err)
		}
		if len(positions) == 0 {
			return released, nil
		}
	}
}

// Blocked are the dead letters of blocked lanes that were dead-lettered without an attempt, behind another of their
// lane. They have no tombstone.
type Blocked struct {
	Lanes  int64 // that are blocked
	Count  int64
	Recent int64 // of Count: so late that they may be on their way
}

// blocked counts the dead letters of a queue that are behind others in blocked lanes. It costs the same however many
// they are. Those that were dead-lettered less than recent ago, a minute at most, count as Recent.
func (a *Admin) blocked(ctx context.Context, of Queue, recent time.Duration) (b Blocked, err error) {
	lanes, err := a.blockedLanes(ctx, of)
	if err != nil || lanes == 0 {
		return Blocked{}, err
	}
	now, counts, err := a.text(ctx, of, docLanesBlocked)
	if err != nil {
		return Blocked{}, err
	}
	b = Blocked{Lanes: int64(lanes), Count: max(number(decodeFields(counts)["count"]), 0)}
	if recent > 0 && b.Count > 0 {
		var docs []Doc
		_, docs, err = a.store.Load(ctx, of, lateIn(now), lateIn(now.Add(-lateKept)))
		for _, d := range docs {
			for second, n := range decodeFields(d.Data) {
				if now.Unix()-number(second) <= int64(recent/time.Second) {
					b.Recent += number(n)
				}
			}
		}
		b.Recent = min(b.Recent, b.Count)
	}
	return b, err
}
