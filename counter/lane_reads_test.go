package counter

import (
	"context"
	"fmt"
	"testing"

	"github.com/strikesmq/strikes/counter/rules"
)

// countedPages is a Store that counts the pages that are read.
type countedPages struct {
	Store
	pages int
}

func (s *countedPages) Page(ctx context.Context, of Queue, set string, after Entry, n int) ([]Entry, error) {
	s.pages++
	return s.Store.Page(ctx, of, set, after, n)
}

// TestLaneReadsFewPages: a message is blocked 32 times, with 200 messages between. Each time its dead letter was
// published again without its headers. A step of it stops at the second open position, and not at the last.
func TestLaneReadsFewPages(t *testing.T) {
	store := &countedPages{Store: newMemoryStore()}
	c, number := Over(store, nil), int64(0)
	need(t, errOf(c.OwnLanes(t.Context(), "/", "orders", "", "o")))
	block := func(id, generation string) rules.LaneReply {
		t.Helper()
		number++
		s := rules.LaneStep{Message: Message{VHost: "/", Queue: "orders", ID: id, Generation: generation},
			Act: rules.LaneEnter, Owner: "o", Number: number}
		if number == 1 {
			s.Act = rules.LaneBlock
		}
		r, err := c.StepLane(t.Context(), s)
		if err != nil || r.Code != rules.LaneBlocked {
			t.Fatalf("%+v, %v", r, err)
		}
		return r
	}
	for i := range 32 {
		block("again", "")
		for j := range 200 {
			block(fmt.Sprint(i, "-", j), "")
		}
	}
	store.pages = 0
	// It may be any of the 32, so it gets a new position.
	if r := block("again", "1@1700000000"); r.Position.Number != 32*201+1 || store.pages > 5 {
		t.Errorf("position %d, %d pages were read, want 5 at most", r.Position.Number, store.pages)
	}
}
