package integration

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/deadletter"
	"github.com/strikesmq/strikes/internal/servertest"
)

// TestTwoDropOne: two operators who look at the message that blocks a lane, and drop it, drop that one message.
func TestTwoDropOne(t *testing.T) {
	t.Parallel()
	l := blockedLane(t, 3)
	q, lane := l.open(t, "lane")
	state, err := lane.Store.Lane(t.Context(), "/", l.name, "lane")
	need(t, err)
	lane.First = state.First()
	if done, err := q.DropFirst(t.Context(), lane); err != nil || done.Dropped != 1 {
		t.Errorf("the first operator: %+v, %v", done, err)
	}
	if done, err := q.DropFirst(t.Context(), lane); !errors.Is(err, deadletter.ErrLaneChanged) || done.Dropped != 0 {
		t.Errorf("the second operator: %+v, %v", done, err)
	}
	now, err := lane.Store.Lane(t.Context(), "/", l.name, "lane")
	if err != nil || len(now.Open) != 2 {
		t.Errorf("the lane has %+v, %v", now, err)
	}
	if done, err := q.DropLane(t.Context(), lane); !errors.Is(err, deadletter.ErrLaneChanged) || done.Dropped != 0 {
		t.Errorf("an operator who saw all three drops the lane: %+v, %v", done, err)
	}
	lane.First = counter.Position{}
	if done, err := q.DropFirst(t.Context(), lane); err != nil || done.Dropped != 1 {
		t.Errorf("whichever blocks the lane: %+v, %v", done, err)
	}
	l.awaitDead(t, 1)
}

// releasedMeanwhile is a store in which a lane is released after the first look at it.
type releasedMeanwhile struct {
	deadletter.Lanes
	looks int
}

func (s *releasedMeanwhile) Lane(ctx context.Context, vhost, queue, lane string) (*counter.LaneState, error) {
	if s.looks++; s.looks > 1 {
		return nil, counter.ErrNotBlocked
	}
	return s.Lanes.Lane(ctx, vhost, queue, lane)
}

// TestDropOfALaneReleasedMeanwhile: the dead letters that were taken return, and the next operator finds the
// dead-letter queue free.
func TestDropOfALaneReleasedMeanwhile(t *testing.T) {
	t.Parallel()
	l := blockedLane(t, 2)
	q, lane := l.open(t, "lane")
	late := lane
	late.Store = &releasedMeanwhile{Lanes: lane.Store}
	if done, err := q.DropFirst(t.Context(), late); !errors.Is(err, counter.ErrNotBlocked) || done.Dropped != 0 {
		t.Errorf("released meanwhile: %+v, %v", done, err)
	}
	if done, err := q.DropLane(t.Context(), lane); err != nil || done.Dropped != 2 {
		t.Errorf("the next operator: %+v, %v", done, err)
	}
}

// TestReplayLanesOneAfterTheOther: the second of two lanes waits for the first, which takes long, because their dead
// letters look alike without an id.
func TestReplayLanesOneAfterTheOther(t *testing.T) {
	t.Parallel()
	t.Run("alike", func(t *testing.T) { replayInTurn(t, 0) })
	t.Run("alike and late", func(t *testing.T) { replayInTurn(t, 4) })
}

// replayInTurn replays a lane of three dead letters, and one of one. The replay drops no position of the second lane as
// missing meanwhile, nor at its first read of that lane: the dead letter may be on its way. It arrives at the given
// read of the second lane; 0: it is there.
func replayInTurn(t *testing.T, reads int) {
	t.Helper()
	l := newLaneQueue(t, "")
	l.lane = func(d amqp.Delivery) string { return d.AppId }
	var slow atomic.Bool
	l.receive = func(amqp.Delivery) {
		if slow.CompareAndSwap(true, false) {
			time.Sleep(4 * time.Second) // a dead letter is missing after three
		}
	}
	l.consume(t, nil)
	for i, lane := range []string{"first", "first", "first", "second"} {
		publishBare(t, l.name, amqp.Publishing{AppId: lane, Body: []byte("x"), DeliveryMode: amqp.Persistent})
		l.awaitDead(t, i+1)
	}
	l.fix()
	slow.Store(true)
	q, first := l.open(t, "first")
	first.Missing = true
	second := first
	second.Name = "second"
	if reads > 0 {
		late, seen := l.takeLast(t, 4), 0
		second.Store = &watchedLane{Lanes: second.Store, before: func() {
			if seen++; seen == reads {
				l.putBack(t, l.name+".dlq", late)
			}
		}}
	}
	results := map[string]deadletter.LaneResult{}
	need(t, q.ReplayLanes(t.Context(), []deadletter.Lane{first, second}, func(l deadletter.Lane, r deadletter.LaneResult,
		err error) error {
		results[l.Name] = r
		return err
	}))
	for lane, replayed := range map[string]int{"first": 3, "second": 1} {
		if r := results[lane]; r.Replayed != replayed || r.Dropped != 0 || !r.Released {
			t.Errorf("lane %s: %+v; want %d replayed, and none dropped", lane, r, replayed)
		}
	}
}

// TestReplayLanesOfOneContent: twenty lanes have a dead letter each, all of one content and without an id. A header or
// the routing key tells its lane.
func TestReplayLanesOfOneContent(t *testing.T) {
	t.Parallel()
	const lanes = 20
	l := newLaneQueue(t, "")
	l.lane = func(d amqp.Delivery) string {
		name, _ := d.Headers["lane"].(string)
		return cmp.Or(name, d.RoutingKey)
	}
	var ran sync.Map
	l.receive = func(d amqp.Delivery) {
		n, _ := ran.LoadOrStore(l.lane(d), new(atomic.Int64))
		n.(*atomic.Int64).Add(1)
	}
	l.consume(t, nil)
	for i := range lanes {
		m := amqp.Publishing{Headers: amqp.Table{"lane": fmt.Sprint("lane ", i), "n": int32(7)}, Body: []byte("x")}
		if i == 0 {
			m.Headers = nil
		}
		publishBare(t, l.name, m)
	}
	l.awaitDead(t, lanes)
	l.fix()
	q, first := l.open(t, l.name)
	first.Wait = 10 * time.Second
	all := []deadletter.Lane{first}
	for i := range lanes - 1 {
		first.Name = fmt.Sprint("lane ", i+1)
		all = append(all, first)
	}
	slices.Reverse(all) // in another order than their dead letters
	begun, released := time.Now(), 0
	err := q.ReplayLanes(t.Context(), all, func(l deadletter.Lane, r deadletter.LaneResult, err error) error {
		if n, _ := ran.Load(l.Name); err != nil || !r.Released || r.Replayed != 1 || n.(*atomic.Int64).Load() != 2 {
			t.Errorf("lane %q: %+v, %v after %v; want one replayed, and two attempts", l.Name, r, err, time.Since(begun))
			return nil
		}
		released++
		return nil
	})
	if err != nil || released != lanes {
		t.Errorf("%d of %d lanes are released, %v", released, lanes, err)
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

// putBack publishes a dead letter that takeLast has taken off, to a queue.
func (l *laneQueue) putBack(t *testing.T, queue string, d amqp.Delivery) {
	t.Helper()
	publishBare(t, queue, amqp.Publishing{MessageId: d.MessageId, AppId: d.AppId, Headers: d.Headers,
		Body: d.Body, DeliveryMode: amqp.Persistent})
}

// TestSlowLane: a message of one lane takes longer than lane replay --all waits. The replay goes on with the other
// lanes. Without a consumer all lanes wait, so the replay ends with the first.
func TestSlowLane(t *testing.T) {
	t.Parallel()
	program := servertest.Program(t, "cmd/strikes")
	s := newShared(t, 2)
	s.fails = func(string, string) error { return consumer.Reject(errors.New("bad")) }
	stop := s.consume(func(c *consumer.Consumer) { c.HoldLanes = true })
	s.publish("a 1")
	s.eventually("a dead letter", func() bool { return queueDepth(t, s.queue+".dlq") == 1 })
	s.publish("b 1", "c 1", "b 2", "c 2")
	s.eventually("five dead letters", func() bool { return queueDepth(t, s.queue+".dlq") == 5 })
	waits := true // a handler that does not end would delay the isolated attempts of other tests
	s.now(func(key, _ string) error {
		switch {
		case key == "a" && waits:
			waits = false
			return consumer.RetryAfter(errors.New("busy"), 10*time.Second)
		case key == "a":
			return consumer.Reject(errors.New("bad"))
		}
		return nil
	})
	replay := func(wait string) string {
		cmd := exec.Command(program, "lane", "replay", s.queue, "--all", "--yes", "--wait", wait, "--why", "test")
		cmd.Env = append(os.Environ(), "STRIKES_AMQP_URL="+brokerURL(t), "STRIKES_STORE_URL="+patientURL(t),
			"STRIKES_PREFIX="+s.prefix, "STRIKES_MANAGEMENT_URL="+managementURL(t))
		said, err := cmd.CombinedOutput()
		if err == nil {
			t.Errorf("a lane stays blocked, and the command succeeds: %s", said)
		}
		return string(said)
	}
	said := replay("8s") // the other lanes go on within it, also on a busy machine
	for _, want := range []string{"lane a is still blocked: 1 replayed", "lane b is released: 2 replayed",
		"lane c is released: 2 replayed", "1 of 3 lanes"} {
		if !strings.Contains(said, want) {
			t.Errorf("got %q, want %q", said, want)
		}
	}
	s.eventually("it is dead again", func() bool { return queueDepth(t, s.queue+".dlq") == 1 })
	stop()
	said = replay("1s")
	if !strings.Contains(said, "lane a is still blocked: 1 replayed") || strings.Contains(said, "1 of 1") {
		t.Errorf("without a consumer: %q", said)
	}
}
