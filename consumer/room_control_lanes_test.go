package consumer

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strikesmq/strikes/consumer/internal/control"
	"github.com/strikesmq/strikes/consumer/internal/lanes"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/broker"
)

// TestALaneBlockedDuringASessionEndsIt: within two seconds, if the session holds no lanes. One that holds lanes goes
// on, as do both if the store does not reply.
func TestALaneBlockedDuringASessionEndsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		session := sessionOn(s, Consumer{})
		k, release := heard(session)
		defer release()
		none, end := k.Consuming(t.Context(), "orders", session.unfit)
		defer end()
		holds, end := k.Consuming(t.Context(), "orders", nil)
		defer end()
		time.Sleep(3500 * time.Millisecond) // between two reads of the store
		s.down.Store(true)
		holdLane(t, s.Memory, "a")
		time.Sleep(3 * time.Second)
		if none.Err() != nil {
			t.Error("a session ended although no lane was known to be blocked")
		}
		s.down.Store(false)
		time.Sleep(2 * time.Second)
		if none.Err() == nil || holds.Err() != nil {
			t.Errorf("without HoldLanes the session goes on: %v; with HoldLanes: %v", none.Err() == nil, holds.Err() == nil)
		}
	})
}

// TestABlockedLaneEndsTheSessionsOfItsPartition: a lane of one partition is blocked. The session on that partition ends
// at the next read, and those on the other partitions go on.
func TestABlockedLaneEndsTheSessionsOfItsPartition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		k, release := heard(sessionOn(s, Consumer{}))
		defer release()
		var sessions [16]context.Context
		for p := range sessions {
			source := broker.Partition("orders", p)
			watch := lanes.Watch{Store: s, VHost: "/", Queue: source, Log: slog.New(slog.DiscardHandler)}
			var end func()
			sessions[p], end = k.Consuming(t.Context(), source, watch.AnyBlocked)
			defer end()
		}
		blockLane(t, s.Memory, broker.Partition("orders", 3), "a")
		time.Sleep(control.Every + control.Timeout)
		for p, session := range sessions {
			if ended := session.Err() != nil; ended != (p == 3) {
				t.Errorf("partition %d: the session ended: %v", p, ended)
			}
		}
	})
}

func TestUnreadableLanesAreLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		store := lanesFail{counter.NewMemory(nil), errors.New("away")}
		logger := slog.New(slog.NewTextHandler(&log, nil))
		session := sessionOn(store, Consumer{Logger: logger})
		k, release := heard(session)
		_, end := k.Consuming(t.Context(), "orders", session.unfit)
		time.Sleep(5 * time.Second)
		end()
		release()
		if n := strings.Count(log.String(), "is not known"); n != 1 {
			t.Errorf("%d warnings in %q, want 1", n, log.String())
		}
	})
}
