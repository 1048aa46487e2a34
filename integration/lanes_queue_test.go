package integration

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/pause"
)

// TestHoldQueue is TestHoldLanes without lanes: an exhausted message holds its whole queue. Meanwhile an operator
// limits and resets messages that will succeed, and skips those that always fail. The handled messages must be the
// published ones, in their order, without the skipped ones.
func TestHoldQueue(t *testing.T) {
	eachQueueOfLanes(t, 0, func(t *testing.T, h *blockedLanes) {
		d := h.decide(t)
		publishBodies(t, h.queue, 0, h.n, func(i int) string { return fmt.Sprint(i, " ") })
		h.reach(t, h.n)
		d.stop()
		t.Logf("the queue was held %d times: %d limits, %d resets", d.holds.Load(), d.limits.Load(), d.resets.Load())
		if d.limits.Load() == 0 || d.resets.Load() == 0 || len(h.dropped) == 0 {
			t.Error("nothing was limited, reset or skipped; that is hardly a test")
		}
		h.wantSkippedDead(t)
	})
}

// wantSkippedDead checks that the skipped messages are dead-lettered, and no others. A classic queue may return a
// message although its dead letter survived a kill of the broker, so there may be two.
func (h *blockedLanes) wantSkippedDead(t *testing.T) {
	t.Helper()
	dead := map[int]bool{}
	need(t, onChannel(dialer(t), func(ch *amqp.Channel) error {
		for {
			d, ok, err := ch.Get(h.queue+".dlq", true)
			if !ok || err != nil {
				return err
			}
			i, err := strconv.Atoi(d.MessageId)
			if err != nil {
				return err
			}
			dead[i] = true
		}
	}))
	if !maps.Equal(dead, h.dropped) {
		t.Errorf("dead letters %v, want those that were skipped, %v", dead, h.dropped)
	}
}

// queueDecisions count the decisions of an operator about messages that held their queue.
type queueDecisions struct {
	holds, limits, resets atomic.Int64
	stop                  func()
}

// decide has an operator decide about each message that holds the queue.
func (h *blockedLanes) decide(t *testing.T) *queueDecisions {
	t.Helper()
	var d queueDecisions
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for pause.For(ctx, 10*time.Millisecond) {
			err := h.decideOnce(ctx, &d)
			if err != nil && ctx.Err() == nil && !errors.As(err, new(*counter.StoreError)) &&
				!errors.Is(err, counter.ErrNoRecord) {
				t.Errorf("the operator: %v", err)
				return
			}
		}
	}()
	d.stop = func() { cancel(); <-done }
	t.Cleanup(d.stop)
	return &d
}

func (h *blockedLanes) decideOnce(ctx context.Context, d *queueDecisions) error {
	admin := h.counts.Admin()
	pause, err := admin.Paused(ctx, "/", h.queue)
	if pause == nil || pause.Holding == nil || err != nil {
		return err
	}
	held := pause.Holding
	i, err := strconv.Atoi(held.ID)
	if err != nil {
		return err
	}
	turn := d.holds.Add(1)
	note := counter.Note{By: "test", Why: "it is repaired"}
	times, _ := failing(i)
	switch {
	case times >= alwaysFails:
		if _, err := fmt.Fprintf(h.out, "drop - %s\n", held.ID); err != nil { // before the queue goes on
			return err
		}
		return admin.Skip(ctx, held.Message, note)
	case turn%2 == 0:
		d.resets.Add(1)
		return admin.Reset(ctx, held.Message, note)
	}
	d.limits.Add(1)
	all, err := admin.Get(ctx, "/", h.queue, held.ID)
	for _, r := range all {
		if r.Message == held.Message {
			return admin.LimitMessage(ctx, held.Message, r.Counted()+1, note)
		}
	}
	return err
}
