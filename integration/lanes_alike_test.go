package integration

import (
	"bytes"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/deadletter"
)

// TestReplayLanesOneAfterTheOther: the second of two lanes waits for the first, which takes long. Either their dead
// letters look alike because they have no id, or they do not fit in memory together. The replay drops no position of
// the second lane as missing meanwhile, nor at its first read of that lane: the dead letter may be on its way.
func TestReplayLanesOneAfterTheOther(t *testing.T) {
	t.Parallel()
	const large = 12 << 20 // three do not fit in memory beside others, two do
	for _, tc := range []struct {
		name  string
		size  int // of the bodies in the first lane; those in the second are small
		reads int // the read of the second lane at which its late dead letter arrives; 0: it is not late
	}{{"alike", 1, 0}, {"alike and late", 1, 4}, {"large and late", large, 3}} {
		t.Run(tc.name, func(t *testing.T) {
			l := newLaneQueue(t, "")
			l.lane = func(d amqp.Delivery) string { name, _ := d.Headers["lane"].(string); return name }
			var slow atomic.Bool
			l.receive = func(amqp.Delivery) {
				if slow.CompareAndSwap(true, false) {
					time.Sleep(4 * time.Second) // a dead letter is missing after three
				}
			}
			l.consume(t, nil)
			for i, m := range []struct {
				lane string
				size int
			}{{"first", tc.size}, {"first", tc.size}, {"first", tc.size}, {"second", 1}} {
				need(t, onChannel(dialer(t), func(ch *amqp.Channel) error { // a publisher of the library would give it an id
					return ch.PublishWithContext(t.Context(), "", l.name, true, false, amqp.Publishing{
						Headers: amqp.Table{"lane": m.lane}, Body: bytes.Repeat([]byte("x"), m.size), DeliveryMode: amqp.Persistent,
					})
				}))
				l.awaitDead(t, i+1)
			}
			l.fix()
			slow.Store(true)
			q, first := l.open(t, "first")
			first.Missing = true
			second := first
			second.Name = "second"
			if tc.reads > 0 {
				late, reads := l.takeLast(t, 4), 0
				second.Store = &busyLane{second.Store, func() {
					if reads++; reads == tc.reads {
						l.putBack(t, late)
					}
				}}
			}
			results := map[string]deadletter.LaneResult{}
			err := q.ReplayLanes(t.Context(), []deadletter.Lane{first, second}, func(l deadletter.Lane, r deadletter.LaneResult,
				err error) error {
				results[l.Name] = r
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			for lane, replayed := range map[string]int{"first": 3, "second": 1} {
				if r := results[lane]; r.Replayed != replayed || r.Dropped != 0 || !r.Released {
					t.Errorf("lane %s: %+v; want %d replayed, and none dropped", lane, r, replayed)
				}
			}
		})
	}
}

// takeLast takes the last of n dead letters off.
func (l *laneQueue) takeLast(t *testing.T, n int) (last amqp.Delivery) {
	t.Helper()
	need(t, onChannel(dialer(t), func(ch *amqp.Channel) error {
		for range n {
			last = getOne(t, ch, l.name+".dlq")
		}
		return last.Ack(false)
	}))
	l.awaitDead(t, n-1)
	return last
}

// putBack publishes a dead letter that takeLast has taken off.
func (l *laneQueue) putBack(t *testing.T, d amqp.Delivery) {
	t.Helper()
	need(t, onChannel(dialer(t), func(ch *amqp.Channel) error {
		return ch.PublishWithContext(t.Context(), "", l.name+".dlq", true, false, amqp.Publishing{MessageId: d.MessageId,
			Headers: d.Headers, Body: d.Body, DeliveryMode: amqp.Persistent})
	}))
}
