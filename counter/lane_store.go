package counter

import (
	"context"
	"slices"
	"time"

	"github.com/strikesmq/strikes/counter/rules"
)

func laneExpires(now time.Time) time.Time { return now.Truncate(time.Millisecond).Add(laneTTL) }

// isOld reports whether a document of lanes is to be renewed, because it is new or was not renewed today.
func isOld(d Doc, now time.Time) bool { return d.Expires.Sub(now) <= laneTTL-24*time.Hour }

// placesOf is the set of places of a lane with positions since a time. A lane that begins anew, after its document has
// expired, does not find the places of before: their numbers are those of other messages.
func placesOf(hash string, since int64) string { return docLane + hash + ":places:" + decimal(since) }

// changeLane changes a lane, with the places at some positions.
func (c *client) changeLane(ctx context.Context, of Queue, lane string, at []int64,
	by func(l *rules.Lane, places []rules.Place) rules.LaneChange) error {
	hash := hashID(lane)
	return c.insist(ctx, of, []string{docLane + hash}, func(now time.Time, docs []Doc) (Change, error) {
		l, err := c.decodeLane(of, docs[0])
		if err != nil || docs[0].Data == "" {
			return Change{}, err
		}
		places, err := c.places(ctx, of, wantedPlaces{set: placesOf(hash, l.Since), first: l.First, at: at})
		if err != nil {
			return Change{}, err
		}
		change := by(&l, places)
		return laneChange(docs[0], l, change, now), nil
	})
}

// laneChange returns the change that a step of a lane saves. Once a day it renews the lane's document with all
// places of the lane, so that no place expires before the document.
func laneChange(d Doc, lane rules.Lane, change rules.LaneChange, now time.Time) Change {
	if !change.Save {
		return Change{}
	}
	hash, renews := d.Name[len(docLane):], isOld(d, now)
	if d.Data = rules.EncodeLane(lane); renews {
		d.Expires = laneExpires(now)
	}
	expires := d.Expires
	out := Change{Docs: []Doc{d}, Sets: []Member{{setLanes, hash, -lane.Blocked.UnixMilli(), !lane.IsBlocked(), expires}}}
	if renews {
		out.Sets = append(out.Sets, Member{Set: placesOf(hash, lane.Since), Expires: expires})
	}
	if renews || change.Counted != 0 { // all lanes of the queue share this document
		out.Add = append(out.Add, Sum{docLanesBlocked, "count", change.Counted, expires})
	}
	for gone, members := range map[bool][]rules.LaneMember{false: change.Add, true: change.Gone} {
		for _, m := range members {
			out.Sets = append(out.Sets, Member{placesOf(hash, lane.Since), m.Name, m.Score, gone, expires})
		}
	}
	if change.Late > 0 {
		out.Add = append(out.Add, Sum{lateIn(now), decimal(now.Unix()), change.Late, now.Add(2 * lateKept)})
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
		return lane, c.foreignDoc(of, d.Name, "no lane of strikes")
	}
	return lane, d.Err
}

// wantedPlaces names the places at some positions of a lane.
type wantedPlaces struct {
	set    string
	first  int64 // the first open position
	at     []int64
	enough func(read []rules.Place) bool // no more of them are needed; nil: all are
}

// places reads those at some positions of a lane, ascending. If the first open position is among these, also those at
// the next open one that is not.
func (c *client) places(ctx context.Context, of Queue, want wantedPlaces) (out []rules.Place, err error) {
	at := slices.Compact(slices.Sorted(slices.Values(want.at)))
	if len(at) == 0 {
		return nil, nil
	}
	_, seeks := slices.BinarySearch(at, want.first)
	size := 2*len(at) + 30
	for after := Entry(rules.PlacesFrom(at[0])); ; {
		found, err := c.store.Page(ctx, of, want.set, after, size)
		if err != nil {
			return nil, err
		}
		for _, e := range found {
			p := rules.ParsePlace(rules.LaneMember(e))
			i, wanted := slices.BinarySearch(at, p.Number)
			if seeks && !wanted && p.Kind == rules.PlaceOpen && p.Number > want.first {
				at, wanted, seeks = slices.Insert(at, i, p.Number), true, false
			}
			if !wanted {
				continue
			}
			if out = append(out, p); want.enough != nil && want.enough(out) {
				return out, nil
			}
		}
		if len(found) < size {
			return out, nil
		}
		after = found[size-1]
		read := -after.Score // its places may continue
		i, _ := slices.BinarySearch(at, read)
		switch {
		case seeks && read >= want.first:
		case i == len(at):
			return out, nil
		case at[i] > read:
			after = Entry(rules.PlacesFrom(at[i]))
		}
	}
}

// placesOfLetter reads the first positions of a letter in a set of places.
func (c *client) placesOfLetter(ctx context.Context, of Queue, set, letter string, most int) (out []rules.Place,
	err error) {
	after := Entry(rules.PlacesOf(letter))
	found, err := c.store.Page(ctx, of, set, after, most)
	for _, e := range found {
		if p := rules.ParsePlace(rules.LaneMember(e)); e.Score == after.Score && p.Letter == letter {
			out = append(out, p)
		}
	}
	return out, err
}
