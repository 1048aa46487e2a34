package integration

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/strikesmq/strikes/deadletter"
)

// TestPublishedAgainInABlockedLane: a second message of the id that blocks a lane gets a position of its own, behind
// all others, whether the consumer was restarted in between or not. The message that blocks the lane keeps its own.
func TestPublishedAgainInABlockedLane(t *testing.T) {
	t.Parallel()
	for _, restarted := range []bool{true, false} {
		l := newLaneQueue(t, "0")
		l.publish(t, 0, 2)
		stop := l.consume(t, nil)
		l.awaitDead(t, 2)
		if restarted {
			stop()
			l.consume(t, nil)
		}
		l.publish(t, 0, 1)
		l.publish(t, 2, 3)
		l.awaitDead(t, 4)
		l.fix()
		q, blocked := l.open(t, "lane")
		if done, err := q.ReplayLane(t.Context(), blocked); err != nil || !done.Released || done.Replayed != 4 {
			t.Errorf("restarted %v: %+v, %v", restarted, done, err)
		}
		l.wantRan(t, "0", "1", "0", "2")
	}
}

// TestLaneOfAStoreThatWasRolledBack: a store that was restored from a copy expects dead letters that were replayed
// since. One replay gives them all up, and goes on with those that are there.
func TestLaneOfAStoreThatWasRolledBack(t *testing.T) {
	t.Parallel()
	l := blockedLane(t, 5)
	restore := l.copyStore(t)
	l.fix()
	q, blocked := l.open(t, "lane")
	if done, err := q.ReplayLane(t.Context(), blocked); err != nil || !done.Released {
		t.Fatalf("%+v, %v", done, err)
	}
	restore()
	// the consumer knows that the lane is free: its next dead letter tells it otherwise
	l.publish(t, 5, 7)
	l.wantRan(t, "0", "1", "2", "3", "4", "5", "6")
	l.mu.Lock()
	l.bad["7"] = true
	l.mu.Unlock()
	l.publish(t, 7, 9)
	l.awaitDead(t, 2)
	l.fix()
	blocked.Wait = 10 * time.Second
	if done, err := q.ReplayLane(t.Context(), blocked); !errors.Is(err, deadletter.ErrLaneMissing) || done.Dropped != 0 {
		t.Errorf("without Missing: %+v, %v", done, err)
	}
	blocked.Missing, blocked.Wait = true, time.Minute
	if done, err := q.ReplayLane(t.Context(), blocked); err != nil || !done.Released || done.Missing != 5 ||
		done.Replayed != 2 {
		t.Errorf("with Missing: %+v, %v", done, err)
	}
	l.wantRan(t, "0", "1", "2", "3", "4", "5", "6", "7", "8")
}

// copyStore copies the data of the store, and returns a function that restores it.
func (l *laneQueue) copyStore(t *testing.T) (restore func()) {
	t.Helper()
	opts, err := redis.ParseURL(redisURL(t))
	need(t, err)
	rdb := redis.NewClient(opts)
	t.Cleanup(func() { need(t, rdb.Close()) })
	ctx := context.WithoutCancel(t.Context())
	kept := map[string]string{}
	keys := rdb.Scan(ctx, 0, l.prefix+"*", 100).Iterator()
	for keys.Next(ctx) {
		kept[keys.Val()], err = rdb.Dump(ctx, keys.Val()).Result()
		need(t, err)
	}
	need(t, keys.Err())
	return func() {
		l.flush(t)
		for key, value := range kept {
			need(t, rdb.RestoreReplace(ctx, key, time.Hour, value).Err())
		}
	}
}
