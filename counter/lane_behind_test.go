package counter

import (
	"testing"
	"time"
)

// TestBehind parks a message with a tombstone and two behind it, replays one of these, which dies again, and drops the lane.
func TestBehind(t *testing.T) {
	for _, c := range servers(t) {
		testBehind(t, c)
	}
}

func testBehind(t *testing.T, c *Counter) {
	t.Helper()
	admin := c.Admin()
	want := func(when string, count int64) {
		t.Helper()
		for recent, lately := range map[time.Duration]int64{time.Minute: count, 0: 0} {
			got, err := admin.Behind(t.Context(), "/", "orders", recent)
			if err != nil || got != (Behind{count, lately}) {
				t.Errorf("%s: %+v, %v; want %d", when, got, err, count)
			}
		}
	}
	want("no lanes", 0)
	if _, err := c.OwnLanes(t.Context(), "/", "orders", "", "o"); err != nil {
		t.Fatal(err)
	}
	number := int64(0)
	step := func(act LaneAct, id, generation string, place Place) LaneReply {
		t.Helper()
		number++
		r, err := c.StepLane(t.Context(), LaneStep{Message: Message{VHost: "/", Queue: "orders", ID: id, Generation: generation}, Lane: "a", Act: act, Owner: "o", Number: number, Place: place})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	die := func(id, generation string) {
		t.Helper()
		a := Attempt{Message: Message{VHost: "/", Queue: "orders", ID: id, Generation: generation}, Token: "t"}
		if _, err := c.Fail(t.Context(), a, Failure{Limit: 1, Reason: "no stock"}); err != nil {
			t.Fatal(err)
		}
	}
	step(LanePark, "1", "", Place{})
	die("1", "")
	want("the first, which has a tombstone", 0)
	second := step(LaneEnter, "2", "", Place{}).Place
	third := step(LaneEnter, "3", "", Place{}).Place
	want("two behind it", 2)
	step(LanePark, "2", "g", second)
	die("2", "g")
	want("one of them died", 1)
	if _, err := admin.DropPlaces(t.Context(), "/", "orders", "a", []Place{second, third}); err != nil {
		t.Fatal(err)
	}
	want("dropped", 0)
}
