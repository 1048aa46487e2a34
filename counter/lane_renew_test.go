package counter

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strikesmq/strikes/counter/rules"
)

// keepingStore notes the members that keep a set.
type keepingStore struct {
	Store
	kept []Member
}

func (s *keepingStore) Save(ctx context.Context, of Queue, c Change) (bool, error) {
	for _, m := range c.Sets {
		if m.Name == "" {
			s.kept = append(s.kept, m)
		}
	}
	return s.Store.Save(ctx, of, c)
}

// TestLaneIsRenewedWhole: a step and a consumer keep all places of a lane as long as its document, with one member.
func TestLaneIsRenewedWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, number := &keepingStore{Store: newMemoryStore()}, int64(0)
		c := Over(s, nil)
		step := func() Position {
			number++
			m := Message{VHost: "/", Queue: "q", ID: fmt.Sprint(number)}
			reply, err := c.StepLane(t.Context(), rules.LaneStep{Message: m, Act: rules.LaneBlock, Owner: "o", Number: number})
			need(t, err)
			return reply.Position
		}
		need(t, errOf(c.OwnLanes(t.Context(), "/", "q", "", "o")))
		set := placesOf(LaneHash(""), step().Since)
		for name, renew := range map[string]func(){
			"step":     func() { step() },
			"consumer": func() { need(t, errOf(c.NextBlocked(t.Context(), "/", "q", BlockedPage{}))) },
		} {
			time.Sleep(48 * time.Hour)
			s.kept = nil
			renew()
			if want := []Member{{Set: set, Expires: laneExpires(time.Now().UTC())}}; !slices.Equal(s.kept, want) {
				t.Errorf("%s: got %+v, want %+v", name, s.kept, want)
			}
		}
	})
}
