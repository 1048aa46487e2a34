package ops

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/deadletter"
	"github.com/strikesmq/strikes/internal/servertest"
)

var need = servertest.Need

// queueAt returns a queue in an empty store.
func queueAt(t testing.TB) (*Queue, *counter.Counter) {
	t.Helper()
	c, err := counter.Dial("redis://"+miniredis.RunT(t).Addr()+"?read_timeout=1m&write_timeout=1m&dial_timeout=1m", nil)
	need(t, err)
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return &Queue{Store: c.Admin(), VHost: "/", Name: "orders"}, c
}

// die dead-letters a message of a queue.
func die(t testing.TB, c *counter.Counter, id string, cause counter.Cause, reason string) {
	t.Helper()
	a := counter.Attempt{Message: counter.Message{VHost: "/", Queue: "orders", ID: id}, Token: "a"}
	if _, err := c.Fail(t.Context(), a, counter.Failure{Cause: cause, Reason: reason}); err != nil {
		t.Fatal(err)
	}
}

func ids(dead []*deadletter.Message) (ids []string) {
	for _, m := range dead {
		ids = append(ids, m.ID)
	}
	return ids
}

func TestDead(t *testing.T) {
	q, c := queueAt(t)
	var all []string
	for i := range 40 {
		id := fmt.Sprintf("%02d", i)
		cause, reason := counter.CauseFailed, fmt.Sprintf("timeout after %d ms", i)
		if i%4 == 0 {
			cause, reason = counter.CausePanicked, "index out of range"
		}
		die(t, c, id, cause, reason)
		all = append(all, id)
		time.Sleep(2 * time.Millisecond) // the order of two deaths in one millisecond is not known
	}
	slices.Reverse(all)
	get := func(query DeadQuery) DeadPage {
		t.Helper()
		page, err := q.Dead(t.Context(), query)
		need(t, err)
		return page
	}
	if got := get(DeadQuery{}); !slices.Equal(ids(got.Dead), all) || got.Next != "" || got.Partial {
		t.Errorf("all: %v, %+v", ids(got.Dead), got)
	}
	var paged []string
	for query := (DeadQuery{Limit: 7}); ; {
		page := get(query)
		paged = append(paged, ids(page.Dead)...)
		if query.After = page.Next; page.Next == "" {
			break
		}
	}
	if !slices.Equal(paged, all) {
		t.Errorf("page by page: %v", paged)
	}
	if got := get(DeadQuery{Filter: deadletter.Filter{Kind: deadletter.KindPanicked}, Limit: 3}); !slices.Equal(
		ids(got.Dead), []string{"36", "32", "28"}) || got.Next == "" {
		t.Errorf("by kind: %v, %+v", ids(got.Dead), got)
	}
	if got := get(DeadQuery{Filter: deadletter.Filter{IDs: []string{"07", "none", "09"}}, Budget: 1}); !slices.Equal(
		ids(got.Dead), []string{"09", "07"}) || got.Partial {
		t.Errorf("by id: %v", ids(got.Dead))
	}
	if got := get(DeadQuery{Filter: deadletter.Filter{Reason: "no such"}, Budget: 1}); !got.Partial || got.Next == "" ||
		len(got.Dead) > 0 {
		t.Errorf("a budget: %v, %+v", ids(got.Dead), got)
	}
	need(t, q.Store.NoteRemoved(t.Context(), "/", "orders", []counter.Message{{ID: "07"}}))
	if got := get(DeadQuery{Filter: deadletter.Filter{IDs: []string{"07"}}}); len(got.Dead) > 0 {
		t.Errorf("what was replayed: %v", ids(got.Dead))
	}
}

func TestGroups(t *testing.T) {
	q, c := queueAt(t)
	for i := range 30 {
		die(t, c, fmt.Sprint("a", i), counter.CauseFailed, fmt.Sprintf("timeout after %d ms\nstack", i))
	}
	for i := range 20 {
		die(t, c, fmt.Sprint("b", i), counter.CausePanicked, fmt.Sprintf("index out of range [%d]", i))
	}
	got, err := q.Groups(t.Context(), DeadQuery{})
	if err != nil || got.Partial || got.Count != 50 || got.Of != 50 || len(got.Groups) != 2 {
		t.Fatalf("%+v, %v", got, err)
	}
	first, second := got.Groups[0], got.Groups[1]
	if first.Count != 30 || first.Kind != deadletter.KindFailed || !strings.HasPrefix(first.Reason, "timeout after <") ||
		first.Example[0] != 'a' || first.Oldest.After(first.Newest) {
		t.Errorf("the largest: %+v", first)
	}
	if second.Count != 20 || second.Kind != deadletter.KindPanicked {
		t.Errorf("the other: %+v", second)
	}
	if got, err = q.Groups(t.Context(), DeadQuery{Filter: deadletter.Filter{Kind: deadletter.KindPanicked}}); err != nil ||
		got.Count != 20 || got.Of != 50 {
		t.Errorf("by kind: %+v, %v", got, err)
	}
	for i := range 1000 {
		die(t, c, fmt.Sprint("c", i), counter.CauseFailed, "connection refused")
	}
	if got, err = q.Groups(t.Context(), DeadQuery{Budget: 1}); err != nil || !got.Partial || got.Count != 1000 ||
		got.Of != 1050 {
		t.Errorf("a budget: %+v, %v", got, err)
	}
}

// TestSummary: the text says where all dead letters are, and in which ways the missing ones may have gone.
func TestSummary(t *testing.T) {
	const lost = " unaccounted for: expired, consumed elsewhere, taken off by a command that was killed, or lost"
	const unseen = lost + "; or waiting in the source queue, which only the management API shows"
	for _, tc := range []struct {
		d    DeadLetters
		want string
	}{
		{DeadLetters{}, "unknown whether they arrived: there is no queue q.dlq (--dead-letter-queue names another)"},
		{DeadLetters{Holds: new(0)}, "q.dlq holds 0"},
		{DeadLetters{Holds: new(5)}, "q.dlq holds 5"},
		{DeadLetters{Holds: new(5), Blocked: 4, Removed: 1}, "q.dlq holds 5, 4 in blocked lanes, 1 replayed or dropped"},
		{DeadLetters{Holds: new(9), Taken: new(int64(0))}, "q.dlq holds 9"},
		{DeadLetters{Holds: new(9), Removed: 1, Unrecorded: 4},
			"q.dlq holds 9 (4 not known to the store), 1 replayed or dropped"},
		{DeadLetters{Holds: new(1), Expired: 3}, "q.dlq holds 1, 3 whose records expired"},
		{DeadLetters{Holds: new(3), Missing: 2}, "q.dlq holds 3; missing 2" + unseen},
		{DeadLetters{Holds: new(3), Taken: new(int64(2))}, "q.dlq holds 3, at least 2 consumed from it in all"},
		{DeadLetters{Holds: new(3), Taken: new(int64(1)), Missing: 1},
			"q.dlq holds 3, at least 1 consumed from it in all; missing 1" + lost},
		{DeadLetters{Holds: new(0), Taken: new(int64(0)), Missing: 5}, "q.dlq holds 0; missing 5" + lost},
		{DeadLetters{Holds: new(2), Removed: 2, Missing: 1}, "q.dlq holds 2, 2 replayed or dropped; missing 1" + unseen},
		{DeadLetters{Holds: new(3), Taken: new(int64(0)), Removed: 2}, "q.dlq holds 3, 2 replayed or dropped"},
		{DeadLetters{Holds: new(2), Taken: new(int64(3)), Removed: 2},
			"q.dlq holds 2, 2 replayed or dropped, at least 3 consumed from it in all"},
		{DeadLetters{Holds: new(1), Taken: new(int64(3)), Removed: 2, Missing: 1},
			"q.dlq holds 1, 2 replayed or dropped, at least 3 consumed from it in all; missing 1" + lost},
		{DeadLetters{Holds: new(1), Waiting: 4, Taken: new(int64(0))},
			"q.dlq holds 1, 4 waiting in the source queue for the dead-letter route"},
		{DeadLetters{Holds: new(1), Waiting: 2, Taken: new(int64(0)), Removed: 1, Missing: 1},
			"q.dlq holds 1, 2 waiting in the source queue for the dead-letter route, 1 replayed or dropped; missing 1" + lost},
		{DeadLetters{Holds: new(1), Out: 2, Unclear: 4},
			"q.dlq holds 1, 2 unacked by its consumers, 4 on the way or in use"},
		{DeadLetters{Holds: new(1), Taken: new(int64(1)), Unclear: 3},
			"q.dlq holds 1, at least 1 consumed from it in all, 3 on the way or in use"},
		{DeadLetters{Holds: new(1), Missing: 3, Unclear: 1}, "q.dlq holds 1, 1 on the way or in use; missing 3" +
			unseen},
	} {
		tc.d.Queue = "q.dlq"
		tc.d.WaitingSeen = tc.d.Taken != nil || tc.d.Waiting > 0
		text := tc.d.Holding()
		if tc.d.Missing > 0 {
			text += "; missing " + tc.d.Lost()
		}
		if text != tc.want {
			t.Errorf("%+v: want %s", tc.d, tc.want)
		}
	}
}
