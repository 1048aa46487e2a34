package counter

import (
	"context"
	_ "embed"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/strikesmq/strikes/counter/rules"
	"github.com/strikesmq/strikes/internal/printable"
)

// BlockedLane is a lane of a queue that is blocked: its messages are dead-lettered without an attempt until those
// before them are handled or dropped.
type BlockedLane struct {
	Lane     string    // its name, of which the store keeps 1 KiB
	By       string    // id of the message that holds it now; empty if that has none, or is being replayed
	Since    time.Time // by the store's clock
	Messages int       // not handled, the one that blocks the lane included
}

//go:embed scripts/lane_list.lua
var laneListLua string

//go:embed scripts/lane_read.lua
var laneReadLua string

//go:embed scripts/lane_letters.lua
var laneLettersLua string

//go:embed scripts/lane_drop.lua
var laneDropLua string

var (
	listLanes   = redis.NewScript(laneListLua)
	readLane    = redis.NewScript(laneReadLua)
	noteLetters = redis.NewScript(laneLettersLua)
	dropLane    = redis.NewScript(laneDropLua)
)

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
		some, read, err := a.listLanes(ctx, vhost, queue, skip, part)
		if err != nil {
			return nil, err
		}
		if out = append(out, some...); read < part {
			break
		}
		skip, most = skip+part, most-part
	}
	slices.SortStableFunc(out, bySince)
	return out, nil
}

// listLanes also returns how many entries it read: lanes lacks the expired ones.
func (a *Admin) listLanes(ctx context.Context, vhost, queue string, skip, most int) (lanes []BlockedLane, read int,
	err error) {
	keys := a.opts.lanesKeys(vhost, queue)
	reply, err := listLanes.Run(ctx, a.rdb, keys, skip, most).Slice()
	if err != nil {
		return nil, 0, fmt.Errorf("counter: lanes, queue %q: %w", queue, a.laneError(keys, err))
	}
	for _, entry := range reply {
		if lane, ok := parseBlockedLane(entry); ok {
			lanes = append(lanes, lane)
		}
	}
	return lanes, len(reply), nil
}

func parseBlockedLane(entry any) (BlockedLane, bool) {
	words, _ := entry.([]any)
	if len(words) != 4 {
		return BlockedLane{}, false
	}
	name, ok := words[0].(string) // of an expired lane it is nil
	by, _ := words[1].(string)
	since, _ := words[2].(string)
	n, _ := words[3].(int64)
	return BlockedLane{Lane: name, By: by, Since: millis(since), Messages: int(n)}, ok
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
	keys := a.opts.laneKeys(vhost, queue, lane)
	reply, err := readLane.Run(ctx, a.rdb, keys, positionsRead, lettersRead, namesRead).Slice()
	if err == nil && len(reply) != 6 {
		err = fmt.Errorf("%w: got %d values, want 6", ErrReply, len(reply))
	}
	if err != nil {
		return nil, fmt.Errorf("counter: lane, queue %q: %w", queue, a.laneError(keys, err))
	}
	since, _ := reply[0].(string)
	last, _ := reply[1].(string)
	messages, _ := reply[2].(int64)
	s := &LaneState{Since: number(since), Last: number(last), Messages: int(messages), names: map[string][]blockedAt{}}
	for _, position := range texts(reply[3]) {
		s.Open = append(s.Open, number(position))
	}
	for _, text := range texts(reply[4]) {
		words := strings.SplitN(text, " ", 4)
		if len(words) == 4 {
			s.letters = append(s.letters, blocked{position: number(words[2]), name: words[1], id: words[3],
				published: words[0] == "p"})
		}
	}
	for _, text := range texts(reply[5]) {
		words := strings.Split(text, " ")
		if len(words) == 4 {
			s.names[words[0]] = append(s.names[words[0]], blockedAt{number(words[1]), words[2], words[3] == "1"})
		}
	}
	if len(s.Open) == 0 {
		return nil, laneRefused("lane", queue, lane)
	}
	s.sort()
	return s, nil
}

func texts(reply any) []string {
	list, _ := reply.([]any)
	out := make([]string, 0, len(list))
	for _, v := range list {
		text, _ := v.(string)
		out = append(out, text)
	}
	return out
}

// LaneLetter is a dead letter of a lane.
type LaneLetter struct {
	Message
	Position Position
}

// NotePublishing notes that dead letters of a lane are about to be published again. Without it a replay that is cut
// off could take their messages, which are back in the queue, for lost. It is safe to repeat.
func (a *Admin) NotePublishing(ctx context.Context, vhost, queue, lane string, letters []LaneLetter) error {
	return a.noteLetters(ctx, vhost, queue, lane, "publishing", letters)
}

// NoteReplayed notes that dead letters of a lane were published again and are off the dead-letter queue. It is safe to
// repeat. If it is not called, they count as duplicates if they are found again.
func (a *Admin) NoteReplayed(ctx context.Context, vhost, queue, lane string, letters []LaneLetter) error {
	return a.noteLetters(ctx, vhost, queue, lane, "replayed", letters)
}

func (a *Admin) noteLetters(ctx context.Context, vhost, queue, lane, act string, letters []LaneLetter) error {
	if a.refuse != nil {
		return a.refuse
	}
	keys := a.opts.laneKeys(vhost, queue, lane)
	for some := range slices.Chunk(letters, positionsRead) {
		args := []any{act}
		for _, l := range some {
			args = append(args, member(l.ID, l.Generation), l.Position.Number, printable.Cut(l.ID, rules.MaxStoredID))
		}
		if err := noteLetters.Run(ctx, a.rdb, keys, args...).Err(); err != nil {
			return fmt.Errorf("counter: note %s, queue %q: %w", act, queue, a.laneError(keys, err))
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
	keys := a.opts.laneKeys(vhost, queue, lane)
	for {
		some := positions[:min(positionsRead, len(positions))]
		positions = positions[len(some):]
		args := []any{hashID(lane)}
		for _, p := range some {
			args = append(args, strconv.FormatInt(p.Since, 10), strconv.FormatInt(p.Number, 10))
		}
		left, err := dropLane.Run(ctx, a.rdb, keys, args...).Int()
		if err != nil {
			return false, fmt.Errorf("counter: drop positions, queue %q: %w", queue, a.laneError(keys, err))
		}
		if len(positions) == 0 {
			return left == 0, nil
		}
	}
}
