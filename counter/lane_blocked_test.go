package counter

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/strikesmq/strikes/counter/rules"
)

// TestBlocked blocks a message with a tombstone and two behind it, replays one of these, which dies again, and drops
// the lane.
func TestBlocked(t *testing.T) {
	for _, c := range counters(t) {
		testBlocked(t, c)
	}
}

func testBlocked(t *testing.T, c *Counter) {
	t.Helper()
	admin := c.Admin()
	want := func(when string, lanes, count int64) {
		t.Helper()
		for recent, lately := range map[time.Duration]int64{time.Minute: count, 0: 0} {
			all, err := admin.Summaries(t.Context(), "/", []string{"bills", "orders"}, recent)
			if err != nil || all[0].BlockedLanes != 0 || all[1].BlockedLanes != int(lanes) || all[1].Blocked.Count != count ||
				all[1].Blocked.Recent != lately {
				t.Errorf("%s: %+v, %v; want %d behind in %d lanes", when, all, err, count, lanes)
			}
		}
	}
	want("no lanes", 0, 0)
	need(t, errOf(c.OwnLanes(t.Context(), "/", "orders", "", "o")))
	number := int64(0)
	step := func(act rules.LaneAct, id, generation string, position Position) rules.LaneReply {
		t.Helper()
		number++
		r, err := c.StepLane(t.Context(), rules.LaneStep{Message: Message{VHost: "/", Queue: "orders", ID: id,
			Generation: generation}, Lane: "a", Act: act, Owner: "o", Number: number, Position: position})
		need(t, err)
		return r
	}
	die := func(id, generation string) {
		t.Helper()
		a := Attempt{Message: Message{VHost: "/", Queue: "orders", ID: id, Generation: generation}, Token: "t"}
		need(t, errOf(c.Fail(t.Context(), a, Failure{Limit: 1, Reason: "no stock"})))
	}
	first := step(rules.LaneBlock, "1", "", Position{}).Position
	die("1", "")
	want("the first, which has a tombstone", 1, 0)
	second := step(rules.LaneEnter, "2", "", Position{}).Position
	third := step(rules.LaneEnter, "3", "", Position{}).Position
	want("two behind it", 1, 2)
	letter := []LaneLetter{{Message{ID: "2"}, second}}
	need(t, admin.NotePublished(t.Context(), "/", "orders", "a", letter))
	want("one of them is published", 1, 1)
	step(rules.LaneEnter, "2", "g", second)
	want("it is behind again", 1, 2)
	step(rules.LaneBlock, "2", "g", second)
	die("2", "g")
	want("one of them died", 1, 1)
	drop := func(positions ...Position) {
		t.Helper()
		need(t, errOf(admin.DropPositions(t.Context(), "/", "orders", "a", positions)))
	}
	drop(second, third)
	want("two are dropped", 1, 0)
	drop(first)
	want("all are dropped", 0, 0)
	if c.rdb == nil { // a document of another type cannot be
		return
	}
	need(t, c.rdb.Set(t.Context(), c.opts.queueKey("/", "bills")+setLanes, "no set", 0).Err())
	if all, err := admin.Summaries(t.Context(), "/", []string{"bills", "orders"}, 0); err != nil ||
		!errors.Is(all[0].Err, ErrForeign) || all[1].Err != nil {
		t.Errorf("a key of another type: %+v, %v", all, err)
	}
}

// TestNextBlockedForgets: a lane whose document expired before the set of lanes no longer counts as blocked.
func TestNextBlockedForgets(t *testing.T) {
	for _, c := range counters(t) {
		of := Queue{"/", "orders"}
		_, err := c.OwnLanes(t.Context(), of.VHost, of.Name, "", "o")
		for _, lane := range []string{"a", "b"} {
			_, failed := c.StepLane(t.Context(), rules.LaneStep{Message: Message{VHost: of.VHost, Queue: of.Name, ID: lane},
				Lane: lane, Act: rules.LaneBlock, Owner: "o", Number: 1})
			err = errors.Join(err, failed)
		}
		_, failed := c.store.Save(t.Context(), of, Change{Docs: []Doc{{Name: docLane + LaneHash("a"), Any: true}}})
		_, unread := c.NextBlocked(t.Context(), of.VHost, of.Name, BlockedPage{})
		n, uncounted := c.BlockedLanes(t.Context(), of.VHost, of.Name)
		if err = errors.Join(err, failed, unread, uncounted); n != 1 || err != nil {
			t.Errorf("%d lanes are blocked, want 1: %v", n, err)
		}
	}
}

// TestLanes: a list of some lanes has those that are blocked for longest, and says how many there are.
func TestLanes(t *testing.T) {
	for _, c := range counters(t) {
		need(t, errOf(c.OwnLanes(t.Context(), "/", "orders", "", "o")))
		const blocked = page + 10 // more than one round trip reads
		for i := range blocked {
			step := rules.LaneStep{Message: Message{VHost: "/", Queue: "orders", ID: "m"}, Lane: fmt.Sprint(i),
				Act: rules.LaneBlock, Owner: "o", Number: 1}
			need(t, errOf(c.StepLane(t.Context(), step)))
		}
		all, _, err := c.Admin().Lanes(t.Context(), "/", "orders", blocked)
		need(t, err)
		for _, most := range []int{-1, 0, 1, page, blocked - 1, blocked, blocked + 1} {
			got, n, err := c.Admin().Lanes(t.Context(), "/", "orders", most)
			if err != nil || n != blocked || !slices.Equal(got, all[:min(max(most, 0), blocked)]) {
				t.Errorf("%d of %d at most: %d, %v", most, n, len(got), err)
			}
		}
	}
}
