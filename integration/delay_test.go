package integration

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/counter/rules"
	"github.com/strikesmq/strikes/deadletter"
	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/internal/proctest"
	"github.com/strikesmq/strikes/internal/servers"
	"github.com/strikesmq/strikes/internal/servertest"
	"github.com/strikesmq/strikes/topology"
)

// delayQueue is a queue whose shortest delay queue returns messages after a few seconds.
type delayQueue struct {
	topo
	url   string
	name  string
	store *counter.Memory
}

// quick is the TTL of every delay queue in these tests. A consumer refuses such delay queues, so it begins where they
// are right.
const quick = 2 * time.Second

func newDelayQueue(t *testing.T) *delayQueue { return newShortDelayQueue(t, 0) }

// newShortDelayQueue's delay queues return messages after ttl, by a policy that consumers do not see; zero: they are
// as declared.
func newShortDelayQueue(t *testing.T, ttl time.Duration) *delayQueue {
	url := servertest.VirtualHost(t) // the delay queues are those of all queues of a virtual host
	b := topoDial(t, url)
	if ttl > 0 {
		shortenDelayQueues(t, managementURL(t), b.conn.Config.Vhost, ttl)
	}
	q := &delayQueue{b, url, b.name(), counter.NewMemory(nil)}
	b.declare(topology.Spec{Queue: q.name, DelayQueues: true})
	return q
}

// hasten declares the delay queues again, so that messages that arrive from now on return soon.
func (q *delayQueue) hasten() {
	for _, delayQueue := range broker.DelayQueues {
		q.remove(delayQueue.Name)
		args := delayQueue.Arguments()
		args[broker.ArgTTL] = quick.Milliseconds()
		q.queue(delayQueue.Name, args)
		q.bind(delayQueue.Name, "", delayQueue.Name)
	}
}

// visits are the attempts at messages.
type visits struct {
	mu         sync.Mutex
	fails      func(id string, attempt int) error // the result of an attempt at a message, counted from 1
	deliveries []amqp.Delivery                    // of all attempts
	attempts   map[string]int                     // at each id
	succeeded  map[string]int
	outcomes   map[consumer.Outcome]int
}

func newVisits(fails func(id string, attempt int) error) *visits {
	return &visits{fails: fails, attempts: map[string]int{}, succeeded: map[string]int{},
		outcomes: map[consumer.Outcome]int{}}
}

func (v *visits) Observe(_ context.Context, e consumer.Event) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.outcomes[e.Outcome]++
}

func (v *visits) handle(_ context.Context, d amqp.Delivery) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.deliveries = append(v.deliveries, d)
	v.attempts[d.MessageId]++
	if err := v.fails(d.MessageId, v.attempts[d.MessageId]); err != nil {
		return err
	}
	v.succeeded[d.MessageId]++
	return nil
}

// wait returns once f is true.
func (v *visits) wait(t *testing.T, what string, f func() bool) {
	t.Helper()
	proctest.Within(t, time.Minute, func() error {
		v.mu.Lock()
		defer v.mu.Unlock()
		if !f() {
			return fmt.Errorf("%s: attempts %v, outcomes %v", what, v.attempts, v.outcomes)
		}
		return nil
	})
}

// run consumes until the test ends, with a handler that asks for each message again after the result of delay; zero:
// it succeeds.
func (q *delayQueue) run(above time.Duration, delay func(attempt int) time.Duration) *visits {
	q.t.Helper()
	v := newVisits(func(_ string, attempt int) error {
		if wait := delay(attempt); wait != 0 {
			return consumer.RetryAfter(errors.New("not yet"), wait)
		}
		return nil
	})
	ready := make(chan bool, 1)
	c := consumer.Consumer{
		Queue: q.name, Counter: q.store, DelayAbove: above, Observer: v, Handler: v.handle, MaxRetries: 9,
		Consuming: func(bool) {
			select {
			case ready <- true:
			default:
			}
		},
	}
	runConsumer(q.t, c, consumer.Dialer(q.url, amqp.Config{}))
	select {
	case <-ready:
	case <-time.After(time.Minute):
		q.t.Fatal("the consumer does not begin")
	}
	return v
}

// TestDelayMoves delays messages on a real broker: a copy waits, comes back with the count and the routing key, and a
// message that is due far off is moved again.
func TestDelayMoves(t *testing.T) {
	t.Parallel()
	q := newDelayQueue(t)
	calls := 0
	s := q.run(0, func(int) time.Duration { // a reset begins the numbers anew
		calls++
		switch calls {
		case 1:
			return 400 * 24 * time.Hour
		case 2:
			return -time.Second
		}
		return 0
	})
	q.hasten()
	id := uuid.NewString()
	died := amqp.Table{"queue": q.name, "reason": "rejected", "count": int64(1), "time": time.Unix(1700000000, 0)}
	headers := amqp.Table{"x-strikes-generation": "g", "x-death": []any{died}, "mine": "kept"}
	broker.WriteFor(headers, q.name, id, nil)
	q.bind(q.name, "order.*", "amq.topic")
	q.sendTo("amq.topic", "order.paid", amqp.Publishing{MessageId: id, Headers: headers, Priority: 7, DeliveryMode: 2})
	s.wait(t, "moved twice", func() bool {
		return s.outcomes[consumer.OutcomeMove] >= 2
	})
	records, err := q.store.Get(t.Context(), q.conn.Config.Vhost, q.name, id)
	if err != nil || len(records) != 1 || records[0].Failures != 1 || records[0].Move.Top < 2 {
		t.Fatalf("records %+v, %v", records, err)
	}
	if got := s.attempts[id]; got != 1 {
		t.Errorf("%d attempts: a message that waits for 400 days was handled again", got)
	}
	need(t, q.store.Reset(t.Context(), records[0].Message, counter.Note{By: "test", Why: "it is due now"}))
	s.wait(t, "handled", func() bool { return s.outcomes[consumer.OutcomeAck] > 0 })
	if s.outcomes[consumer.OutcomeAck] != 1 {
		t.Errorf("outcomes %v", s.outcomes)
	}
	last := s.deliveries[len(s.deliveries)-1].Headers
	if last["mine"] != "kept" || last["x-strikes-copy"] == nil || last["x-strikes-copy-generation"] == nil {
		t.Errorf("headers of the copy: %v", last)
	}
	for _, d := range s.deliveries {
		if d.Exchange != "amq.topic" || d.RoutingKey != "order.paid" {
			t.Errorf("an attempt saw exchange %q, routing key %q", d.Exchange, d.RoutingKey)
		}
	}
	q.wantEmpty()
}

func (q *delayQueue) send(id string, headers amqp.Table) {
	q.t.Helper()
	q.sendTo("", q.name, amqp.Publishing{MessageId: id, Headers: headers, DeliveryMode: 2, Body: []byte(id)})
}

func (q *delayQueue) sendTo(exchange, key string, msg amqp.Publishing) {
	q.t.Helper()
	q.must(func(ch *amqp.Channel) error { return confirmed(ch, exchange, key, msg) })
}

func (q *delayQueue) depth(queue string) int {
	q.t.Helper()
	var n int
	q.must(func(ch *amqp.Channel) error {
		info, err := ch.QueueDeclarePassive(queue, false, false, false, false, nil)
		n = info.Messages
		return err
	})
	return n
}

func (q *delayQueue) wantEmpty() {
	q.t.Helper()
	got := map[string]int{}
	for _, queue := range []string{q.name, q.name + ".dlq", broker.DelayLost} {
		if n := q.depth(queue); n > 0 {
			got[queue] = n
		}
	}
	if diff := cmp.Diff(map[string]int{}, got); diff != "" {
		q.t.Errorf("left in queues: %s", diff)
	}
}

// TestDelayQueuesAtFault runs sessions with delay queues that are missing, wrong or unbound.
func TestDelayQueuesAtFault(t *testing.T) {
	t.Parallel()
	q := newDelayQueue(t)
	q.remove("strikes.delay.6h")
	conn, err := amqp.Dial(q.url)
	need(t, err)
	defer conn.Close()
	never := func(context.Context, amqp.Delivery) error { return nil }
	err = (&consumer.Consumer{Queue: q.name, Counter: q.store, DelayAbove: time.Minute, Handler: never}).
		Consume(t.Context(), conn)
	if err == nil || !containsAll(err.Error(), `queue "strikes.delay.6h" does not exist`,
		"topology.Declare with DelayQueues") {
		t.Errorf("a missing delay queue: %v", err)
	}
	s := q.run(0, func(number int) time.Duration { // it has no lane, and holds
		if number == 1 {
			return 70 * time.Second
		}
		return 0
	})
	q.send("held", nil)
	s.wait(t, "held", func() bool { return s.outcomes[consumer.OutcomeRetry] > 0 })
	if s.outcomes[consumer.OutcomeMove] > 0 {
		t.Errorf("moved into delay queues that are not whole: %v", s.outcomes)
	}
}

// TestDelayRefuses: a delay queue that goes away while messages are delayed loses none of those that come later. They
// are held until it is back.
func TestDelayRefuses(t *testing.T) {
	t.Parallel()
	q := newDelayQueue(t)
	s := q.run(time.Minute, func(number int) time.Duration {
		if number == 1 {
			return 2 * time.Minute
		}
		return 0
	})
	q.must(func(ch *amqp.Channel) error { return ch.ExchangeDelete("strikes.delay.1m", false, false) })
	q.send("no exchange", nil)
	s.wait(t, "held without an exchange", func() bool { return s.outcomes[consumer.OutcomeHold] > 0 })
	// The delay queue is whole again before the next fault, because a move that has failed for long is repeated seldom.
	q.exchange("strikes.delay.1m", "fanout")
	q.bind("strikes.delay.1m", "", "strikes.delay.1m")
	s.wait(t, "moved with an exchange", func() bool { return s.outcomes[consumer.OutcomeMove] > 0 })
	q.must(func(ch *amqp.Channel) error { return ch.QueueUnbind("strikes.delay.1m", "", "strikes.delay.1m", nil) })
	q.send("no binding", nil)
	s.wait(t, "held without a binding", func() bool { return s.outcomes[consumer.OutcomeHold] == 2 })
	q.bind("strikes.delay.1m", "", "strikes.delay.1m")
	s.wait(t, "moved", func() bool { return s.outcomes[consumer.OutcomeMove] >= 2 })
	args := broker.DelayQueues[0].Arguments()
	args[broker.ArgMaxLength] = int64(1)
	q.remove("strikes.delay.1m")
	q.queue("strikes.delay.1m", args)
	q.bind("strikes.delay.1m", "", "strikes.delay.1m")
	for n := range 4 {
		q.send(fmt.Sprint("full ", n), nil)
	}
	s.wait(t, "held by a full delay queue", func() bool { return s.outcomes[consumer.OutcomeHold] > 2 })
	q.remove("strikes.delay.1m") // with its messages
	q.declare(topology.Spec{Queue: q.name, DelayQueues: true})
	s.wait(t, "moved after all", func() bool { // or moved by a session that ended before it could ack
		return s.outcomes[consumer.OutcomeMove]+s.outcomes[consumer.OutcomeSuperseded] >= 6
	})
}

// TestDelayQueueGone: a message whose queue is gone when it comes back is in strikes.delay.lost, and the others come
// back. Once the queue is declared again, a replay returns the lost messages to it.
func TestDelayQueueGone(t *testing.T) {
	t.Parallel()
	q := newDelayQueue(t)
	other := q.topo.name()
	q.declare(topology.Spec{Queue: other, DelayQueues: true})
	q.hasten()
	q.must(func(ch *amqp.Channel) error { return errOf(ch.QueuePurge(broker.DelayLost, false)) })
	q.remove(other)
	const gone, kept = 100, 20
	for range gone {
		q.publish("strikes.delay.1h", other, "x")
	}
	for range kept {
		q.publish("strikes.delay.1h", q.name, "x")
	}
	proctest.Within(t, time.Minute, func() error {
		if lost, back := q.depth(broker.DelayLost), q.depth(q.name); lost < gone || back < kept {
			return fmt.Errorf("%d of %d are lost messages, %d of %d came back", lost, gone, back, kept)
		}
		return nil
	})
	q.queue(other, nil)
	dead, err := deadletter.Open(t.Context(), deadletter.Queue{Name: broker.DelayLost, Dial: consumer.Dialer(q.url,
		amqp.Config{})}, managementAPI(t))
	need(t, err)
	r, err := dead.Replay(t.Context(), deadletter.Replay{})
	if back := q.depth(other); err != nil || r.Done != gone || back != gone || q.depth(q.name) != kept {
		t.Errorf("%+v, %v; %d messages returned to their queue", r, err, back)
	}
}

func containsAll(text string, parts ...string) bool {
	return !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(text, part) })
}

// TestDelayIDAgain uses an id again while its earlier message is in a delay queue. Both messages are handled, although
// they share one count.
func TestDelayIDAgain(t *testing.T) {
	t.Parallel() // most of it is waiting
	q := newShortDelayQueue(t, quick)
	due := false
	s := q.run(0, func(int) time.Duration {
		if due {
			return 0
		}
		return time.Hour
	})
	send := func(body string) {
		q.sendTo("", q.name, amqp.Publishing{MessageId: "again", DeliveryMode: amqp.Persistent, Body: []byte(body)})
	}
	send("first")
	s.wait(t, "the first one moved", func() bool { return s.outcomes[consumer.OutcomeMove] > 0 })
	send("second")
	s.wait(t, "both attempted", func() bool { return len(s.deliveries) == 2 })
	s.mu.Lock()
	due = true
	s.mu.Unlock()
	reset := func() {
		records, err := q.store.Get(t.Context(), q.conn.Config.Vhost, q.name, "again")
		if err != nil || len(records) != 1 {
			t.Fatalf("records %+v, %v", records, err)
		}
		need(t, q.store.Reset(t.Context(), records[0].Message, counter.Note{By: "test", Why: "it is due now"}))
	}
	s.wait(t, "the second one counted", func() bool { return s.outcomes[consumer.OutcomeRetry] == 2 })
	reset()
	s.wait(t, "both handled", func() bool {
		handled := map[string]bool{}
		for _, d := range s.deliveries[2:] {
			handled[string(d.Body)] = true
		}
		return handled["first"] && handled["second"]
	})
	q.wantEmpty()
}

// hurried tells the store shorter times than the consumer would: a failed message is due after wait, and moved if that
// is longer than above.
type hurried struct {
	*counter.Counter
	wait, above time.Duration
}

func (h hurried) delayed(a counter.Attempt) counter.Attempt {
	if a.Delay.Above > 0 {
		a.Delay.Above = h.above
	}
	return a
}

func (h hurried) Start(ctx context.Context, a counter.Attempt, mode rules.Mode, limit int) (counter.Reply, error) {
	reply, err := h.Counter.Start(ctx, h.delayed(a), mode, limit)
	return fitDelayQueue(reply), err
}

func (h hurried) Fail(ctx context.Context, a counter.Attempt, f counter.Failure) (counter.Reply, error) {
	f.Wait = h.wait
	reply, err := h.Counter.Fail(ctx, h.delayed(a), f)
	return fitDelayQueue(reply), err
}

// fitDelayQueue makes the wait of a MOVE fit a delay queue.
func fitDelayQueue(r counter.Reply) counter.Reply {
	if r.Code == rules.ReplyMove {
		r.Wait = max(r.Wait, time.Minute)
	}
	return r
}

// once fails the first attempt at each message.
func once(_ string, attempt int) error {
	if attempt == 1 {
		return errors.New("not yet")
	}
	return nil
}

// consume consumes until the test ends. Each consumer may have an observer of its own.
func (q *delayQueue) consume(c consumer.Consumer, v *visits, o consumer.Observer) {
	c.Queue, c.Observer, c.Handler, c.Concurrency = q.name, o, v.handle, 4
	runConsumer(q.t, c, consumer.Dialer(q.url, amqp.Config{}))
}

func (q *delayQueue) publishMany(n int) (ids []string) {
	ids = numbered("m", n)
	publishIDs(q.t, consumer.Dialer(q.url, amqp.Config{}), q.name, ids)
	return ids
}

// wantOnce waits for the success of each message, and reports those with more than one success or more than most
// attempts.
func (q *delayQueue) wantOnce(v *visits, ids []string, most int) {
	q.t.Helper()
	v.wait(q.t, "each message handled", func() bool { return len(v.succeeded) == len(ids) })
	eventually(q.t, "empty delay queues", func() bool { return q.held(q.t) == 0 })
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, id := range ids {
		if v.succeeded[id] != 1 || v.attempts[id] > most {
			q.t.Errorf("%s: %d attempts, %d succeeded; want at most %d, 1", id, v.attempts[id], v.succeeded[id], most)
		}
	}
	q.wantEmpty()
}

// TestDelayStoreForgets empties the store while messages are in a delay queue. Each comes back, begins with no failed
// attempt and is handled once.
func TestDelayStoreForgets(t *testing.T) {
	t.Parallel() // most of it is waiting
	store := privateStore(t, servers.RedisOptions{})
	q, v := newShortDelayQueue(t, quick), newVisits(once)
	q.consume(consumer.Consumer{Counter: hurried{counterOn(t, store.URL, ""), time.Hour, quick / 2},
		DelayAbove: time.Minute}, v, v)
	ids := q.publishMany(20)
	v.wait(t, "all moved", func() bool { return v.outcomes[consumer.OutcomeMove] >= len(ids) })
	do(t, client(t, store), "FLUSHALL")
	q.wantOnce(v, ids, 2)
}

// TestDelayMixedConsumers: consumers that move sooner, later or never share a queue. Each message gets two attempts,
// and is handled once.
func TestDelayMixedConsumers(t *testing.T) {
	t.Parallel() // most of it is waiting
	store := counterOn(t, privateStore(t, servers.RedisOptions{}).URL, "")
	q, v := newShortDelayQueue(t, quick), newVisits(once)
	seen := []*visits{newVisits(nil), newVisits(nil), newVisits(nil)}
	wait := 2 * quick
	for i, c := range []consumer.Consumer{
		{Counter: hurried{store, wait, quick / 2}, DelayAbove: time.Minute},
		{Counter: hurried{store, wait, 2 * wait}, DelayAbove: 10 * time.Minute},
		{Counter: hurried{store, wait, 0}, DelayAbove: -1}, // as a consumer without the delay queues
	} {
		c.Prefetch = 4 // a share of the messages for each
		q.consume(c, v, seen[i])
	}
	ids := q.publishMany(60)
	q.wantOnce(v, ids, 2)
	for i, moves := range []bool{true, false, false} {
		seen[i].mu.Lock()
		if got := seen[i].outcomes; len(got) == 0 || got[consumer.OutcomeMove] > 0 != moves {
			t.Errorf("consumer %d: %v", i+1, got)
		}
		seen[i].mu.Unlock()
	}
}
