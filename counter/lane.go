package counter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/strikesmq/strikes/counter/rules"
	"github.com/strikesmq/strikes/internal/printable"
	"github.com/strikesmq/strikes/internal/setting"
)

const (
	// laneTTL is how long the documents of a lane are kept after a renewal. A step renews its lane. Consumers look at
	// blocked lanes once an hour and renew them too. Both renew a lane once a day at most.
	laneTTL = 30 * 24 * time.Hour
	// lanesRenewed is how many lanes the store renews in one round trip, which occupies it for about a millisecond.
	lanesRenewed = 50
)

// Position is that of a message in its lane, which package rules describes.
type Position = rules.Position

func checkLaneStep(s rules.LaneStep) error {
	switch {
	case s.Act < rules.LaneEnter || s.Act > rules.LaneLeave:
		return fmt.Errorf("counter: lane: %w", setting.New("Act", int(s.Act), "LaneEnter, LaneBlock or LaneLeave"))
	case s.Number < 1:
		return fmt.Errorf("counter: lane: %w", setting.New("Number", s.Number, "1 at least"))
	}
	return checkOwner(s.Queue, s.Owner)
}

// BlockedPage is a page of the blocked lanes of a queue.
type BlockedPage struct {
	Lanes []string // as LaneHash names them
	Last  bool     // no other page follows
	after Entry    // the last lane
}

// LaneHash is the name of a lane in a BlockedPage.
func LaneHash(lane string) string { return hashID(lane) }

// OwnLanes makes owner the session that owns the lanes of a queue, if before owns them; an empty before means that no
// session does. The store takes only the owner's steps. OwnLanes returns the owner that the lanes have then, which
// may be another; empty: no session has owned them yet. If owner is empty, it only reads.
//
// Owners must follow one another as the broker gives them the queue. So a session asks who owns the lanes, makes sure
// that it still has the queue, and then claims the lanes of that owner: a session that has lost the queue meanwhile
// fails one of the two.
func (c *Counter) OwnLanes(ctx context.Context, vhost, queue, before, owner string) (now string, err error) {
	if err := checkOwner(queue, cmp.Or(owner, "-")); err != nil {
		return "", err
	}
	err = c.insist(ctx, Queue{vhost, queue}, []string{docLanesOwner}, func(at time.Time, docs []Doc) (Change, error) {
		d := docs[0]
		if now = d.Data; d.Err != nil || owner == "" || now != before {
			return Change{}, d.Err
		}
		now, d.Data, d.Expires = owner, owner, laneExpires(at)
		return Change{Docs: []Doc{d}}, nil
	})
	return now, failed("own lanes", queue, err)
}

// NextBlocked returns the page of blocked lanes after another; the zero value comes before the first. It also renews
// these lanes in the store. The pages together have each lane that is blocked from the first of them to the last.
func (c *Counter) NextBlocked(ctx context.Context, vhost, queue string, after BlockedPage) (next BlockedPage,
	err error) {
	defer func() { err = failed("blocked lanes", queue, err) }()
	of := Queue{vhost, queue}
	found, err := c.store.Page(ctx, of, setLanes, after.after, lanesRenewed)
	if err != nil {
		return BlockedPage{}, err
	}
	next = BlockedPage{Lanes: namesOf("", found), Last: len(found) < lanesRenewed}
	if len(found) > 0 {
		next.after = found[len(found)-1]
	}
	now, docs, err := c.store.Load(ctx, of, append([]string{docLanesOwner}, namesOf(docLane, found)...)...)
	if err != nil {
		return BlockedPage{}, err
	}
	var all Change
	for i, d := range docs {
		lane, ok := rules.DecodeLane(d.Data)
		switch {
		case i > 0 && d.Version == "" && d.Err == nil: // it expired, and the set did not
			all = join(all, Change{Same: docs[i : i+1], Sets: []Member{{Set: setLanes, Name: next.Lanes[i-1], Gone: true}}})
		case d.Data == "" || !isOld(d, now):
		case i == 0:
			d.Expires = laneExpires(now)
			all = join(all, Change{Docs: []Doc{d}})
		case ok && lane.IsBlocked():
			all = join(all, laneChange(d, lane, rules.LaneChange{Save: true}, now))
		}
	}
	if !all.isEmpty() { // if a lane changes meanwhile, nothing is saved until the next call
		_, err = c.store.Save(ctx, of, all)
	}
	return next, err
}

// BlockedLanes returns how many lanes of a queue are blocked. It costs the same however many they are.
func (c *Counter) BlockedLanes(ctx context.Context, vhost, queue string) (int, error) {
	n, err := c.blockedLanes(ctx, Queue{vhost, queue})
	return n, failed("lanes", queue, err)
}

func (c *client) blockedLanes(ctx context.Context, of Queue) (int, error) {
	return c.store.Count(ctx, of, setLanes, math.MinInt64)
}

// StepLane takes a step. After an error it may or may not be taken: repeat it with the same Number, or end the session.
func (c *Counter) StepLane(ctx context.Context, s rules.LaneStep) (reply rules.LaneReply, err error) {
	if err := checkLaneStep(s); err != nil {
		return rules.LaneReply{}, err
	}
	counted, of := Queue{s.VHost, s.Queue}, Queue{s.VHost, cmp.Or(s.Partition, s.Queue)}
	letter, hash := member(s.ID, s.First), hashID(s.Lane)
	s.Lane = printable.Cut(s.Lane, maxLane)
	names := []string{docLane + hash, docLanesOwner, docRecord(member(s.ID, s.Generation))}
	err = c.insist(ctx, of, names, func(now time.Time, docs []Doc) (Change, error) {
		lane, err := c.decodeLane(of, docs[0])
		if err != nil || docs[1].Err != nil {
			return Change{}, cmp.Or(err, docs[1].Err)
		}
		text := docs[2].Data
		if counted != of {
			if _, text, err = c.text(ctx, counted, names[2]); err != nil {
				return Change{}, err
			}
		}
		record, _ := rules.Decode(text)
		v := rules.LaneView{Owner: docs[1].Data, Letter: letter, Died: record.State == StateDeadLetter &&
			record.Removed.IsZero()}
		var at []int64
		number, same := lane.Needs(s)
		if number > 0 {
			at = append(at, number)
		}
		if same {
			v.Same, err = c.placesOfLetter(ctx, of, placesOf(hash, lane.Since), letter, namesRead)
			for _, p := range v.Same {
				if s.HasDied() {
					at = append(at, p.Number)
				}
			}
		}
		if err == nil {
			v.Places, err = c.places(ctx, of, wantedPlaces{placesOf(hash, lane.Since), lane.First, at,
				func(read []rules.Place) bool {
					return number == 0 && rules.LaneView{Letter: letter, Places: read}.ExpectsSeveral()
				}})
		}
		if err != nil {
			return Change{}, err
		}
		var change rules.LaneChange
		reply, change = lane.Step(s, v, now)
		saved := laneChange(docs[0], lane, change, now)
		saved.Same = docs[1:2]
		return saved, nil
	})
	return reply, failed("lane", of.Name, err)
}

// maxLane is how much of a lane's name the store keeps, in bytes.
const maxLane = 1024

// LaneName returns the name of a lane, shortened if it is over 1 KiB: a hash of the whole replaces its end. The store
// keeps the result whole, and finds the lane only by that.
func LaneName(lane string) string {
	if len(lane) <= maxLane {
		return lane
	}
	end := "~" + hashID(lane)
	return printable.Cut(lane, maxLane-len(end)) + end
}

// ErrNotBlocked is wrapped by Lane, and by the operators' changes of a lane, if the lane is not blocked.
var ErrNotBlocked = errors.New("the lane is not blocked")
