package counter

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// HeldLane is a lane of a queue that is held: its messages are dead-lettered without an attempt until those before them are handled
// or dropped.
type HeldLane struct {
	Lane     string    // its name, of which the store keeps 1 KiB
	By       string    // id of the message that holds it now; empty if that has none, or is being replayed
	Since    time.Time // by the store's clock
	Messages int       // not handled, the one that holds the lane included
}

// LaneState is what the store keeps of one held lane.
type LaneState struct {
	Since   int64   // of its Places
	Last    int64   // number of the last place
	Open    []int64 // numbers of the places whose messages are neither handled nor dropped, in their order
	letters map[string]parked
}

// PlaceOf returns the place of a dead letter; false if the lane does not expect it.
func (s *LaneState) PlaceOf(letter Message) (Place, bool) {
	p, ok := s.letters[member(letter.ID, letter.Generation)]
	return Place{s.Since, p.place}, ok
}

// First returns the place of the message that holds the lane; the zero value if no place is open.
func (s *LaneState) First() Place {
	if len(s.Open) == 0 {
		return Place{}
	}
	return Place{s.Since, s.Open[0]}
}

// IsOpen reports whether the message at a place is neither handled nor dropped.
func (s *LaneState) IsOpen(p Place) bool {
	_, open := slices.BinarySearch(s.Open, p.Number)
	return open && p.Since == s.Since
}

// DeadLetter reports whether the message at an open place is a dead letter, and its id, if it has one. Any other message was replayed,
// and is not handled yet.
func (s *LaneState) DeadLetter(number int64) (id string, dead bool) {
	for _, p := range s.letters {
		if p.place == number && (!dead || p.id < id) {
			id, dead = p.id, true
		}
	}
	return id, dead
}

func (s *LaneState) idAt(number int64) string {
	id, _ := s.DeadLetter(number)
	return id
}

// Dead returns the numbers of the open places whose messages are dead letters.
func (s *LaneState) Dead() map[int64]string {
	out := map[int64]string{}
	for _, p := range s.letters {
		out[p.place] = p.id
	}
	return out
}

//go:embed scripts/lane_list.lua
var laneListLua string

//go:embed scripts/lane_drop.lua
var laneDropLua string

var (
	listLanes = redis.NewScript(laneListLua)
	dropLane  = redis.NewScript(laneDropLua)
)

// lanesListed is how many lanes the store examines in one round trip, which occupies it for about 2 ms.
const lanesListed = 150

// Lanes returns the held lanes of a queue, longest held first.
func (a *Admin) Lanes(ctx context.Context, vhost, queue string) ([]HeldLane, error) {
	if a.refuse != nil {
		return nil, a.refuse
	}
	var out []HeldLane
	for at := 0; ; at += lanesListed {
		some, read, err := a.listLanes(ctx, vhost, queue, at, lanesListed)
		if err != nil {
			return nil, err
		}
		if out = append(out, some...); read < lanesListed {
			break
		}
	}
	slices.SortStableFunc(out, bySince)
	return out, nil
}

// LanePage returns a page of the held lanes of a queue, in the order of Lanes: it begins after skip lanes, and most limits its length.
// It also returns how many lanes are held. It costs less than Lanes if a queue has many held lanes.
func (a *Admin) LanePage(ctx context.Context, vhost, queue string, skip, most int) (lanes []HeldLane, all int, err error) {
	if a.refuse != nil {
		return nil, 0, a.refuse
	}
	n, err := a.heldLanes(ctx, vhost, queue)
	if err != nil || skip < 0 || most < 1 || skip >= n {
		return nil, n, err
	}
	lanes, _, err = a.listLanes(ctx, vhost, queue, skip, most)
	slices.SortStableFunc(lanes, bySince)
	return lanes, n, err
}

// listLanes also returns how many entries it read: lanes lacks the expired ones.
func (a *Admin) listLanes(ctx context.Context, vhost, queue string, skip, most int) (lanes []HeldLane, read int, err error) {
	keys := a.opts.lanesKeys(vhost, queue)
	reply, err := listLanes.Run(ctx, a.rdb, keys, skip, most).Slice()
	if err != nil {
		return nil, 0, fmt.Errorf("counter: lanes, queue %q: %w", queue, a.laneError(keys, err))
	}
	for _, entry := range reply {
		if lane, ok := parseHeldLane(entry); ok {
			lanes = append(lanes, lane)
		}
	}
	return lanes, len(reply), nil
}

func parseHeldLane(entry any) (HeldLane, bool) {
	words, _ := entry.([]any)
	if len(words) != 4 {
		return HeldLane{}, false
	}
	name, ok := words[0].(string) // of an expired lane it is nil
	by, _ := words[1].(string)
	since, _ := words[2].(string)
	n, _ := words[3].(int64)
	return HeldLane{Lane: name, By: by, Since: millis(since), Messages: int(n)}, ok
}

func laneRefused(doing, queue, lane string) error {
	return fmt.Errorf("counter: %s, queue %q, lane %q: %w", doing, queue, lane, ErrNotHeld)
}

// Lane returns the state of a held lane. It returns an error that wraps ErrNotHeld for any other.
func (a *Admin) Lane(ctx context.Context, vhost, queue, lane string) (*LaneState, error) {
	if a.refuse != nil {
		return nil, a.refuse
	}
	keys := a.opts.laneKeys(vhost, queue, lane)
	var meta *redis.SliceCmd
	var open *redis.StringSliceCmd
	var letters *redis.MapStringStringCmd
	_, err := a.rdb.TxPipelined(ctx, func(tx redis.Pipeliner) error {
		meta, open, letters = tx.HMGet(ctx, keys[2], "since", "last"), tx.ZRange(ctx, keys[3], 0, -1), tx.HGetAll(ctx, keys[4])
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("counter: lane, queue %q: %w", queue, a.laneError(keys, err))
	}
	s := &LaneState{letters: map[string]parked{}}
	for i, v := range meta.Val() {
		text, _ := v.(string)
		*[]*int64{&s.Since, &s.Last}[i] = number(text)
	}
	for _, place := range open.Val() {
		s.Open = append(s.Open, number(place))
	}
	for name, text := range letters.Val() {
		place, id, _ := strings.Cut(text, " ")
		s.letters[name] = parked{number(place), id}
	}
	if s.Since == 0 || len(s.Open) == 0 {
		return nil, laneRefused("lane", queue, lane)
	}
	return s, nil
}

// NoteReplayed notes that dead letters of a lane were published again and are off the dead-letter queue. It is safe to repeat. If it
// is not called, they count as duplicates if they are found again.
func (a *Admin) NoteReplayed(ctx context.Context, vhost, queue, lane string, letters []Message) error {
	if a.refuse != nil {
		return a.refuse
	}
	if len(letters) == 0 {
		return nil
	}
	keys := a.opts.laneKeys(vhost, queue, lane)
	names := make([]string, 0, len(letters))
	for _, l := range letters {
		names = append(names, member(l.ID, l.Generation))
	}
	if err := a.rdb.HDel(ctx, keys[4], names...).Err(); err != nil {
		return fmt.Errorf("counter: note replayed, queue %q: %w", queue, a.laneError(keys, err))
	}
	return nil
}

// DropPlaces gives up the messages at these places of a lane: those after them need not wait for them any more. It reports whether the
// lane is released, because no other message holds it. Places that are not open are ignored, so it is safe to repeat.
func (a *Admin) DropPlaces(ctx context.Context, vhost, queue, lane string, places []Place) (released bool, err error) {
	if a.refuse != nil {
		return false, a.refuse
	}
	keys := a.opts.laneKeys(vhost, queue, lane)
	args := make([]any, 0, 1+2*len(places))
	args = append(args, hashID(lane))
	for _, p := range places {
		args = append(args, strconv.FormatInt(p.Since, 10), strconv.FormatInt(p.Number, 10))
	}
	left, err := dropLane.Run(ctx, a.rdb, keys, args...).Int()
	if err != nil {
		return false, fmt.Errorf("counter: drop places, queue %q: %w", queue, a.laneError(keys, err))
	}
	return left == 0, nil
}
