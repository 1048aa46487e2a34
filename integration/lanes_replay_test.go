package integration

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/redis/go-redis/v9"

	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/counter/rules"
	"github.com/strikesmq/strikes/deadletter"
	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/internal/servertest"
	"github.com/strikesmq/strikes/topology"
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

// TestPublishedAgainInABlockedLane: a second message of the id that blocks a lane gets a position of its own, behind
// all others. A restart of the consumer in between changes nothing. The message that blocks the lane keeps its own.
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

// TestDeadLetterMovedBackByHand: another program moves a dead letter back into its blocked lane, with its headers, and
// it dies there once more. A replay finds it, with or without an id. The message keeps the position that it had. If
// that was given up meanwhile, it comes behind all others. RabbitMQ 4 begins a new x-death, 3.10 counts on in the old.
func TestDeadLetterMovedBackByHand(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		givenUp bool // its position
		want    string
	}{
		{"in its position", false, "abcd"},
		{"its position is given up", true, "acbd"},
	} {
		for _, ids := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, ids %v", tc.name, ids), func(t *testing.T) {
				t.Parallel()
				l := newLaneQueue(t)
				l.lane = func(amqp.Delivery) string { return "lane" }
				broken, ran := true, ""
				l.receive = func(d amqp.Delivery) {
					l.mu.Lock()
					defer l.mu.Unlock()
					l.bad[d.MessageId] = broken
					if !broken {
						ran += string(d.Body)
					}
				}
				publish := func(body string) {
					m := amqp.Publishing{Body: []byte(body), DeliveryMode: amqp.Persistent}
					if ids {
						m.MessageId = "id " + body
					}
					publishBare(t, l.name, m)
				}
				l.consume(t, nil)
				for i, body := range []string{"a", "b"} {
					publish(body)
					l.awaitDead(t, i+1)
				}
				held, _, err := l.counts.Admin().Lanes(t.Context(), "/", l.name, math.MaxInt)
				if err != nil || len(held) != 1 || strings.HasPrefix(held[0].By, "fp:") == ids {
					t.Errorf("%+v, %v; want a lane that is blocked by an id, or else by a fingerprint", held, err)
				}
				moved := l.takeLast(t, 2)
				q, lane := l.open(t, "lane")
				if tc.givenUp {
					state, err := lane.Store.Lane(t.Context(), "/", l.name, "lane")
					need(t, err)
					need(t, errOf(lane.Store.DropPositions(t.Context(), "/", l.name, "lane",
						[]counter.Position{{Since: state.Since, Number: state.Open[1]}})))
				}
				publish("c")
				l.awaitDead(t, 2)
				l.putBack(t, l.name, moved)
				l.awaitDead(t, 3)
				publish("d")
				l.awaitDead(t, 4)
				l.mu.Lock()
				broken = false
				l.mu.Unlock()
				if done, err := q.ReplayLane(t.Context(), lane); err != nil || !done.Released || done.Replayed != 4 ||
					done.Dropped != 0 {
					t.Errorf("%+v, %v; want four replayed, and none dropped", done, err)
				}
				eventually(t, "the last attempt", func() bool {
					l.mu.Lock()
					defer l.mu.Unlock()
					return len(ran) >= len(tc.want)
				})
				l.mu.Lock()
				defer l.mu.Unlock()
				if ran != tc.want {
					t.Errorf("handled %q, want %q", ran, tc.want)
				}
			})
		}
	}
}

// TestReplayLaneDuringTakeover has a consumer block a message and lose the queue before its nack arrives. An operator
// reads the lane. Only then the next consumer blocks the message again and dead-letters it. The replayed message must
// carry its new position: at the old one it would be acked without an attempt.
func TestReplayLaneDuringTakeover(t *testing.T) {
	t.Parallel()
	for _, typ := range queueTypes {
		t.Run(string(typ), func(t *testing.T) {
			queue := declaredAs(t, topology.Spec{Type: typ})
			counts := counters(t)
			publishBodies(t, queue, 0, 1, func(int) string { return "x lane" })
			step := rules.LaneStep{Message: counter.Message{VHost: "/", Queue: queue, ID: "0"}, Lane: "lane",
				Act: rules.LaneBlock}
			block := func(before, owner string, end func(amqp.Delivery) error) {
				need(t, onChannel(dialer(t), func(ch *amqp.Channel) error {
					if _, err := counts.OwnLanes(t.Context(), "/", queue, before, owner); err != nil {
						return err
					}
					step.Owner, step.Number = owner, 1
					if _, err := counts.StepLane(t.Context(), step); err != nil {
						return err
					}
					return end(getOne(t, ch, queue))
				}))
			}
			block("", "first", func(amqp.Delivery) error { return nil })
			store := &watchedLane{Lanes: counts.Admin(), after: func() {
				block("first", "second", func(d amqp.Delivery) error { return d.Nack(false, false) })
				eventually(t, "a dead letter", func() bool { return depthOf(dialer(t), queue+".dlq") == 1 })
			}}
			q := openDead(t, deadletter.Queue{Name: queue + ".dlq", Records: counts.Admin()})
			done, err := q.ReplayLane(t.Context(), deadletter.Lane{Queue: queue, Name: "lane", Store: store,
				Wait: 6 * time.Second})
			if !errors.Is(err, deadletter.ErrLaneWaiting) || done.Replayed != 1 {
				t.Fatalf("%+v, %v; want one replayed, which waits", done, err)
			}
			need(t, onChannel(dialer(t), func(ch *amqp.Channel) error {
				position, _ := getOne(t, ch, queue).Headers[broker.PositionHeader].(string)
				step.Act, step.Number, step.Position = rules.LaneEnter, 2, rules.ParsePosition(position)
				reply, err := counts.StepLane(t.Context(), step)
				if reply.Code != rules.LaneRun {
					t.Errorf("the replayed message carries the position %q, and gets the reply %d; want %d: it may run", position,
						reply.Code, rules.LaneRun)
				}
				return err
			}))
		})
	}
}

// getOne waits for a message of a queue, and does not settle it.
func getOne(t *testing.T, ch *amqp.Channel, queue string) (d amqp.Delivery) {
	t.Helper()
	eventually(t, "a message in "+queue, func() bool {
		got, ok, err := ch.Get(queue, false)
		need(t, err)
		d = got
		return ok
	})
	return d
}

// TestALaneBlockedDuringASession has a lane blocked while a consumer without HoldLanes consumes. Its session drains
// within two seconds and is refused, and no message that is published then is handled, until the lane is released.
func TestALaneBlockedDuringASession(t *testing.T) {
	t.Parallel()
	queue := declaredAs(t, topology.Spec{Type: topology.Quorum, SingleActiveConsumer: true})
	counts := counters(t)
	handled := make(chan string, 10)
	c := consumer.Consumer{
		Queue: queue, Ordered: true, Counter: counts, Lane: laneOf,
		Handler: func(_ context.Context, d amqp.Delivery) error { handled <- d.MessageId; return nil },
	}
	runConsumer(t, c, dialer(t), consumer.ErrUncleanStop)
	publishBodies(t, queue, 0, 1, func(int) string { return "x lane" })
	<-handled

	step := rules.LaneStep{Message: counter.Message{VHost: "/", Queue: queue, ID: "earlier"}, Lane: "lane",
		Act: rules.LaneBlock, Owner: "other", Number: 1}
	_, err := counts.OwnLanes(t.Context(), "/", queue, "", step.Owner)
	need(t, err)
	blocked, err := counts.StepLane(t.Context(), step)
	need(t, err)
	eventually(t, "that no consumer is attached", func() bool { return consumers(t, queue) == 0 })
	publishBodies(t, queue, 1, 2, func(int) string { return "x lane" })
	eventually(t, "a message that waits", func() bool { return queueDepth(t, queue) == 1 })
	select {
	case id := <-handled:
		t.Errorf("%s overtook the dead letter", id)
	default:
	}
	released, err := counts.Admin().DropPositions(t.Context(), "/", queue, "lane", []counter.Position{blocked.Position})
	if err != nil || !released {
		t.Fatal(released, err)
	}
	select {
	case id := <-handled:
		if id != "1" {
			t.Errorf("handled %s", id)
		}
	case <-time.After(time.Minute):
		t.Error("the message is not handled after the release")
	}
}
