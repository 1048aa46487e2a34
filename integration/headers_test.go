package integration

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/deadletter"
	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/publisher"
	"github.com/strikesmq/strikes/topology"
)

// followUp is the message of a handler that passes on the headers of the message it received, as programs do for
// traces.
func followUp(queue, id string, d amqp.Delivery) publisher.Message {
	return publisher.Message{Key: queue, Publishing: amqp.Publishing{MessageId: id, Headers: d.Headers, Body: d.Body}}
}

const warnsOfForeign = "headers of strikes that were written for another message"

// TestCopiedPosition: the handler of a message that lane replay published passes on its headers. The follow-up gets an
// attempt of its own. If the message fails again, the lane stays blocked, and the follow-up waits behind the others.
func TestCopiedPosition(t *testing.T) {
	t.Parallel()
	for _, fails := range []bool{false, true} {
		l := newLaneQueue(t, "0")
		l.receive = func(d amqp.Delivery) {
			if d.MessageId == "0" && d.Headers[broker.PositionHeader] != nil {
				publishAll(t, followUp(l.name, "follow-up", d))
			}
		}
		l.publish(t, 0, 2)
		l.consume(t, nil)
		l.awaitDead(t, 2)
		q, lane := l.open(t, "lane")
		if fails {
			if done, err := q.ReplayLane(t.Context(), lane); !errors.Is(err, deadletter.ErrLaneFailed) || done.Released {
				t.Errorf("the first replay: %+v, %v", done, err)
			}
			l.awaitDead(t, 3)
			l.wantRan(t)
			l.receive = nil // the consumer is idle: it has nothing to receive
		}
		l.fix()
		if done, err := q.ReplayLane(t.Context(), lane); err != nil || !done.Released {
			t.Errorf("fails again %v: %+v, %v", fails, done, err)
		}
		l.wantRan(t, "0", "1", "follow-up")
		if !l.logged(warnsOfForeign) || !l.logged("id=follow-up") {
			t.Errorf("the log does not say that the headers are foreign: %s", l.log.String())
		}
	}
}

// TestForgedPositionBlocksNothing: a position that any publisher sends blocks no lane.
func TestForgedPositionBlocksNothing(t *testing.T) {
	t.Parallel()
	l := newLaneQueue(t)
	forged := amqp.Publishing{MessageId: "0", Headers: amqp.Table{broker.PositionHeader: "1.1"}, Body: []byte("x lane")}
	publishAll(t, publisher.Message{Key: l.name, Publishing: forged})
	l.publish(t, 1, 6)
	l.consume(t, nil)
	l.wantRan(t, "0", "1", "2", "3", "4", "5")
	if n := depthOf(dialer(t), l.name+".dlq"); n != 0 {
		t.Errorf("%d dead letters", n)
	}
}

// headerQueue is a queue whose consumer has no order.
type headerQueue struct {
	t      *testing.T
	name   string
	counts *counter.Counter
	key    func(amqp.Delivery) string

	mu     sync.Mutex
	fences map[string][]int64 // of the attempts at each message
	log    lockedBuffer
}

func newHeaderQueue(t *testing.T) *headerQueue {
	t.Helper()
	return &headerQueue{t: t, name: declaredAs(t, topology.Spec{Type: topology.Quorum}), counts: counters(t),
		fences: map[string][]int64{}}
}

// consume runs a consumer until the test ends. A message has one attempt.
func (q *headerQueue) consume(handle func(d amqp.Delivery) error) {
	q.t.Helper()
	c := consumer.Consumer{
		Queue: q.name, Counter: q.counts, Key: q.key, MaxRetries: -1, Logger: slog.New(slog.NewTextHandler(&q.log, nil)),
		Handler: func(ctx context.Context, d amqp.Delivery) error {
			a, _ := consumer.AttemptFrom(ctx)
			q.mu.Lock()
			q.fences[d.MessageId] = append(q.fences[d.MessageId], a.Fence)
			q.mu.Unlock()
			return handle(d)
		},
	}
	runConsumer(q.t, c, dialer(q.t), consumer.ErrUncleanStop)
}

// fencesOf returns the fences of the attempts at a message.
func (q *headerQueue) fencesOf(id string) []int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Clone(q.fences[id])
}

func (q *headerQueue) generations(id string) (names []string) {
	q.t.Helper()
	records, err := q.counts.Admin().Get(q.t.Context(), "/", q.name, id)
	need(q.t, err)
	for _, r := range records {
		names = append(names, r.Generation)
	}
	return names
}

func (q *headerQueue) deadLetters() *deadletter.Queue {
	q.t.Helper()
	return openDead(q.t, deadletter.Queue{Name: q.name + ".dlq", Records: q.counts.Admin()})
}

func (q *headerQueue) awaitDead(n int) {
	q.t.Helper()
	eventually(q.t, "dead letters", func() bool { return depthOf(dialer(q.t), q.name+".dlq") == n })
}

var errNoStock = errors.New("no stock")

// TestCopiedReplay: a message is replayed, and its handler passes on the headers. The follow-up keeps its own
// generation and carries no fence. The headers of a replay on the dead letter of the follow-up are not believed
// either.
func TestCopiedReplay(t *testing.T) {
	t.Parallel()
	q := newHeaderQueue(t)
	q.consume(func(d amqp.Delivery) error {
		if d.MessageId == "m" && d.Headers[consumer.GenerationHeader] != nil {
			publishAll(t, followUp(q.name, "follow-up", d))
			return nil
		}
		return errNoStock
	})
	publishAll(t, publisher.Message{Key: q.name, Publishing: amqp.Publishing{MessageId: "m"}})
	q.awaitDead(1)
	if r, err := q.deadLetters().Replay(t.Context(), deadletter.Replay{}); err != nil || r.Done != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	eventually(t, "an attempt at the follow-up", func() bool { return len(q.fencesOf("follow-up")) == 1 })
	q.awaitDead(1)
	if fence := q.fencesOf("follow-up")[0]; fence != 0 {
		t.Errorf("the follow-up has the fence %d", fence)
	}
	if replayed := q.fencesOf("m"); len(replayed) != 2 || replayed[1] == 0 {
		t.Errorf("the message's own replay has no fence: %v", replayed)
	}
	if got := q.generations("follow-up"); !slices.Equal(got, []string{""}) {
		t.Errorf("the follow-up has the generations %q", got)
	}
	for m, err := range q.deadLetters().Browse(t.Context(), deadletter.Filter{}) {
		need(t, err)
		if m.ID != "follow-up" || !m.Foreign || m.Replays != 0 || m.Record == nil {
			t.Errorf("the dead letter: %+v", m)
		}
		if again := m.ForReplay("dead"); again.Headers[deadletter.LineageHeader].(amqp.Table)["count"] != int64(1) {
			t.Errorf("its replay: %v", again.Headers)
		}
	}
	if !strings.Contains(q.log.String(), warnsOfForeign) {
		t.Errorf("the log does not say that the headers are foreign: %s", q.log.String())
	}
}

// TestCopiedCopyNumber: a handler passes on the headers of a copy that came through a delay queue. The follow-up is a
// message like any other: it supersedes no other message with its id.
func TestCopiedCopyNumber(t *testing.T) {
	t.Parallel()
	q := newDelayQueue(t)
	headers := amqp.Table{broker.CopyHeader: int64(3)}
	broker.WriteFor(headers, q.name, "m", nil)
	q.send("follow-up", headers)
	q.send("follow-up", nil)
	q.must(func(ch *amqp.Channel) error { // so that both are redeliveries, which ask the store
		getOne(t, ch, q.name)
		return getOne(t, ch, q.name).Nack(true, true)
	})
	s := q.run(0, func(int) time.Duration { return 0 })
	s.wait(t, "settled", func() bool {
		return s.outcomes[consumer.OutcomeAck]+s.outcomes[consumer.OutcomeSuperseded] == 2
	})
	if len(s.deliveries) != 2 {
		t.Errorf("the attempts %v, the outcomes %v", s.attempts, s.outcomes)
	}
}

// TestReplayWithKey: a queue whose ids come from a Key is replayed by a tool that does not know it. The headers of
// the replay count, also if the messages have no MessageId.
func TestReplayWithKey(t *testing.T) {
	t.Parallel()
	q := newHeaderQueue(t)
	q.key = func(d amqp.Delivery) string { return string(d.Body) }
	q.consume(func(amqp.Delivery) error { return errNoStock })
	for _, id := range []string{"", "transported"} {
		publishBare(t, q.name, amqp.Publishing{MessageId: id, Body: []byte("key of " + id)})
	}
	q.awaitDead(2)
	if r, err := q.deadLetters().Replay(t.Context(), deadletter.Replay{}); err != nil || r.Done != 2 {
		t.Fatalf("%+v, %v", r, err)
	}
	for _, id := range []string{"key of ", "key of transported"} {
		eventually(t, "a second generation of "+id, func() bool {
			got := q.generations(id)
			return len(got) == 2 && slices.ContainsFunc(got, func(g string) bool { return strings.HasPrefix(g, "header:1-") })
		})
	}
	if strings.Contains(q.log.String(), warnsOfForeign) {
		t.Errorf("the replay's own headers are taken for foreign: %s", q.log.String())
	}
}
