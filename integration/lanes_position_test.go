package integration

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/redis/go-redis/v9"

	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/counter/rules"
	"github.com/strikesmq/strikes/deadletter"
	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/topology"
)

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
