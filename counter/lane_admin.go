package counter

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"
)

// BlockedLane is a lane of a queue that is blocked: its messages are dead-lettered without an attempt until those
// before them are handled or dropped.
type BlockedLane struct {
	Lane     string    // its name, of which the store keeps 1 KiB
	By       string    // id of the message that holds it now; empty if that has none, or is being replayed
	Since    time.Time // by the store's clock
	Messages int       // not handled, the one that blocks the lane included
}

// lanesListed is how many lanes the store examines in one round trip, which occupies it for about 2 ms.
const lanesListed = 150

// Lanes returns the blocked lanes of a queue, longest blocked first.
func (a *Admin) Lanes(ctx context.Context, vhost, queue string) ([]BlockedLane, error) {
	if a.refuse != nil {
		return nil, a.refuse
	}
	return a.someLanes(ctx, vhost, queue, 0, math.MaxInt)
}

// LanePage returns a page of the blocked lanes of a queue, in the order of Lanes: it begins after skip lanes, and most
// limits its length. It also returns how many lanes are blocked. It costs less than Lanes if a queue has many blocked
// lanes.
func (a *Admin) LanePage(ctx context.Context, vhost, queue string, skip, most int) (lanes []BlockedLane, all int,
	err error) {
	if a.refuse != nil {
		return nil, 0, a.refuse
	}
	n, err := a.blockedLanes(ctx, vhost, queue)
	if err != nil || skip < 0 || most < 1 || skip >= n {
		return nil, n, err
	}
	lanes, err = a.someLanes(ctx, vhost, queue, skip, most)
	return lanes, n, err
}

// someLanes reads lanes in as many round trips as they take, however many are asked for, so that none occupies the
// store for long.
func (a *Admin) someLanes(ctx context.Context, vhost, queue string, skip, most int) (out []BlockedLane, err error) {
	for most > 0 {
		part := min(most, lanesListed)
		some, read, err := a.lanes.list(ctx, Queue{vhost, queue}, skip, part)
		if err != nil {
			return nil, fmt.Errorf("counter: lanes, queue %q: %w", queue, err)
		}
		if out = append(out, some...); read < part {
			break
		}
		skip, most = skip+part, most-part
	}
	slices.SortStableFunc(out, bySince)
	return out, nil
}

func laneRefused(doing, queue, lane string) error {
	return fmt.Errorf("counter: %s, queue %q, lane %q: %w", doing, queue, lane, ErrNotBlocked)
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
	if a.refuse != nil {
		return nil, a.refuse
	}
	s, err := a.lanes.read(ctx, Queue{vhost, queue}, lane)
	if err != nil {
		return nil, fmt.Errorf("counter: lane, queue %q: %w", queue, err)
	}
	if len(s.Open) == 0 {
		return nil, laneRefused("lane", queue, lane)
	}
	return s, nil
}

// LaneLetter is a dead letter of a lane.
type LaneLetter struct {
	Message
	Position Position
}

// NotePublishing notes that dead letters of a lane are about to be published again. Without it a replay that is cut
// off could take their messages, which are back in the queue, for lost. It is safe to repeat.
func (a *Admin) NotePublishing(ctx context.Context, vhost, queue, lane string, letters []LaneLetter) error {
	return a.noteLetters(ctx, vhost, queue, lane, lettersPublishing, letters)
}

// NoteReplayed notes that dead letters of a lane were published again and are off the dead-letter queue. It is safe to
// repeat. If it is not called, they count as duplicates if they are found again.
func (a *Admin) NoteReplayed(ctx context.Context, vhost, queue, lane string, letters []LaneLetter) error {
	return a.noteLetters(ctx, vhost, queue, lane, lettersReplayed, letters)
}

// The acts of scripts/lane_letters.lua.
const (
	lettersPublishing = "publishing"
	lettersReplayed   = "replayed"
)

func (a *Admin) noteLetters(ctx context.Context, vhost, queue, lane, act string, letters []LaneLetter) error {
	if a.refuse != nil {
		return a.refuse
	}
	for some := range slices.Chunk(letters, positionsRead) {
		if err := a.lanes.note(ctx, Queue{vhost, queue}, lane, act, some); err != nil {
			return fmt.Errorf("counter: note %s, queue %q: %w", act, queue, err)
		}
	}
	return nil
}

// DropPositions gives up the messages at these positions of a lane: those after them need not wait for them any more.
// It reports whether the lane is released, because no other message holds it. Positions that are not open are ignored,
// so it is safe to repeat.
func (a *Admin) DropPositions(ctx context.Context, vhost, queue, lane string, positions []Position) (released bool,
	err error) {
	if a.refuse != nil {
		return false, a.refuse
	}
	for {
		some := positions[:min(positionsRead, len(positions))]
		positions = positions[len(some):]
		left, err := a.lanes.drop(ctx, Queue{vhost, queue}, lane, some)
		if err != nil {
			return false, fmt.Errorf("counter: drop positions, queue %q: %w", queue, err)
		}
		if len(positions) == 0 {
			return left == 0, nil
		}
	}
}
