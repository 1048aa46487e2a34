package counter

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/strikesmq/strikes/counter/rules"
)

func laneExpires(now time.Time) time.Time { return now.Truncate(time.Millisecond).Add(laneTTL) }

// placesOf is the set of places of a lane.
func placesOf(hash string) string { return docLane + hash + ":places" }

// changeLane changes a lane, with the places at some positions.
func (c *client) changeLane(ctx context.Context, of Queue, lane string, at []int64,
	by func(l *rules.Lane, places []rules.Place) rules.LaneChange) error {
	hash := hashID(lane)
	return c.insist(ctx, of, []string{docLane + hash}, func(now time.Time, docs []Doc) (Change, error) {
		l, err := c.decodeLane(of, docs[0])
		if err != nil || docs[0].Data == "" {
			return Change{}, err
		}
		places, err := c.places(ctx, of, hash, l, at)
		if err != nil {
			return Change{}, err
		}
		was := l
		change := by(&l, places)
		return laneChange(docs[0], was, l, change, now), nil
	})
}

// laneChange is what a step of a lane saves.
func laneChange(d Doc, was, lane rules.Lane, change rules.LaneChange, now time.Time) (out Change) {
	if !change.Save {
		return Change{}
	}
	hash := d.Name[len(docLane):]
	d.Data, d.Expires = rules.EncodeLane(lane), laneExpires(now)
	out.Docs, out.Sets = []Doc{d}, laneMoves(hash, change.Moves, d.Expires)
	if was.IsBlocked() != lane.IsBlocked() {
		out.Sets = append(out.Sets, inLanes(hash, lane, d.Expires))
	}
	if change.Counted != 0 {
		out.Add = append(out.Add, Sum{docLanesBlocked, "count", change.Counted, d.Expires})
	}
	if change.Late > 0 {
		out.Add = append(out.Add, Sum{lateIn(now), decimal(now.Unix()), change.Late, now.Add(2 * lateKept)})
	}
	return out
}

// inLanes is the member of a lane among the blocked ones.
func inLanes(hash string, l rules.Lane, expires time.Time) Member {
	return Member{Set: setLanes, Name: hash, Score: -l.Blocked.UnixMilli(), Gone: !l.IsBlocked(), Expires: expires}
}

func laneMoves(hash string, moves []rules.LaneMove, expires time.Time) (out []Member) {
	for _, m := range moves {
		out = append(out, Member{Set: placesOf(hash), Name: m.Name, Score: m.Score, Gone: m.Gone, Expires: expires})
	}
	return out
}

// lateKept is how long it is known how many messages were blocked in each second.
const lateKept = time.Minute

// lateIn is the document with the numbers of the messages that were blocked in a minute, by the second.
func lateIn(at time.Time) string { return docLanesBlocked + ":" + decimal(at.Unix()/60) }

func (c *client) decodeLane(of Queue, d Doc) (rules.Lane, error) {
	lane, ok := rules.DecodeLane(d.Data)
	if d.Err == nil && !ok {
		return lane, &StoreError{Fault: FaultOther, Err: fmt.Errorf("%w: %s is no lane of strikes; inspect it with "+
			"redis-cli GET, and remove it with DEL", ErrForeign, c.opts.queueKey(of.VHost, of.Name)+d.Name)}
	}
	return lane, d.Err
}

// places reads those at some positions of a lane, ascending. If the first open position is among these, also those at
// the next open one that is not.
func (c *client) places(ctx context.Context, of Queue, hash string, l rules.Lane, at []int64) (out []rules.Place,
	err error) {
	at = slices.Compact(slices.Sorted(slices.Values(at)))
	if len(at) == 0 {
		return nil, nil
	}
	_, seeks := slices.BinarySearch(at, l.First)
	size := 2*len(at) + 30
	for after := placesFrom(at[0]); ; {
		found, err := c.store.Page(ctx, of, placesOf(hash), after, size)
		if err != nil {
			return nil, err
		}
		for _, e := range found {
			p := rules.ParsePlace(e.Name, e.Score)
			i, wanted := slices.BinarySearch(at, p.Number)
			if seeks && !wanted && p.Kind == rules.PlaceOpen && p.Number > l.First {
				at, wanted, seeks = slices.Insert(at, i, p.Number), true, false
			}
			if wanted {
				out = append(out, p)
			}
		}
		if len(found) < size {
			return out, nil
		}
		after = found[size-1]
		read := -after.Score // its places may continue
		i, _ := slices.BinarySearch(at, read)
		switch {
		case seeks && read >= l.First:
		case i == len(at):
			return out, nil
		case at[i] > read:
			after = placesFrom(at[i])
		}
	}
}

func placesFrom(number int64) (e Entry) {
	e.Name, e.Score = rules.PlacesFrom(number)
	return e
}

// placesOfLetter reads the first positions of a letter.
func (c *client) placesOfLetter(ctx context.Context, of Queue, hash, letter string, most int) (out []rules.Place,
	err error) {
	var after Entry
	after.Name, after.Score = rules.PlacesOf(letter)
	found, err := c.store.Page(ctx, of, placesOf(hash), after, most)
	for _, e := range found {
		if p := rules.ParsePlace(e.Name, e.Score); e.Score == after.Score && p.Letter == letter {
			out = append(out, p)
		}
	}
	return out, err
}
