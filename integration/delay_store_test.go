package integration

import (
	"context"
	"errors"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/counter/rules"
	"github.com/strikesmq/strikes/internal/servers"
)

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
