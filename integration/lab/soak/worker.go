package soak

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/counter/rules"
	"github.com/strikesmq/strikes/integration/internal/ledger"
	"github.com/strikesmq/strikes/integration/internal/rig"
	"github.com/strikesmq/strikes/integration/internal/work"
	"github.com/strikesmq/strikes/internal/audit"
)

// workerSpec is the configuration of one consumer process.
type workerSpec struct {
	AMQP, Redis               string // URLs of the broker and of the store
	Queue, History            string
	Number                    int
	Concurrency, Prefetch     int
	MaxRetries                int
	HandlerTimeout            time.Duration
	ConsumerTimeout           time.Duration
	Heartbeat                 time.Duration
	FirstBackoff, MostBackoff time.Duration
	Ordered, Requeue          bool
	Lanes                     int
	Breaker                   int
	Calls                     string // URL of the dependency; empty: the handlers call none
	Endpoint                  string // not empty: this is no consumer, but the endpoint at this address
}

// member is that process. It notes each act before the act, and each fact as soon as it learns it.
type member struct {
	workerSpec
	log     *ledger.Log
	session atomic.Int64
	watches sync.WaitGroup
}

func runWorker(ctx context.Context, spec workerSpec) error {
	if spec.Endpoint != "" {
		return runEndpoint(ctx, spec)
	}
	w := member{workerSpec: spec}
	var err error
	if w.log, err = ledger.Append(w.History, w.Number); err != nil {
		return err
	}
	counts, err := rig.Dial(w.Redis, "")
	if err != nil {
		return err
	}
	err = w.consumer(counts).Run(ctx, func(context.Context) (*amqp.Connection, error) { return w.dial(ctx) })
	w.watches.Wait()
	return errors.Join(err, counts.Close(), w.log.Close())
}

func (w *member) consumer(counts *counter.Counter) *consumer.Consumer {
	c := &consumer.Consumer{
		Queue: w.Queue, Handler: w.handle, Counter: noting{counts, w.log}, MaxRetries: w.MaxRetries,
		Concurrency: w.Concurrency, Prefetch: w.Prefetch,
		HandlerTimeout: w.HandlerTimeout, ConsumerTimeout: w.ConsumerTimeout, DrainTimeout: drainTimeout, Observer: w,
		Breaker: w.Breaker,
	}
	if w.FirstBackoff > 0 { // else the consumer's default
		c.Backoff = func(failures int) time.Duration { return min(w.FirstBackoff<<min(failures, 20), w.MostBackoff) }
	}
	if c.Ordered = w.Ordered; w.Lanes > 1 {
		c.Lane = lane
	}
	if w.Requeue {
		c.Retry = consumer.RetryRequeue
	}
	return c
}

// noting writes down BEGUN before it is sent, because the process may die before the handler begins. It also writes
// down that a message is about to be dead-lettered. The Observer hears of it after the nack, and by then the broker may
// have delivered the next message of the queue.
type noting struct {
	*counter.Counter
	log *ledger.Log
}

func (c noting) Start(ctx context.Context, a counter.Attempt, mode rules.Mode, limit int) (counter.Reply, error) {
	reply, err := c.Counter.Start(ctx, a, mode, limit)
	if reply.Code == rules.ReplyRun && mode == rules.ModeBesideAbandoned {
		c.log.Write(audit.Event{Kind: audit.Stepped, ID: a.ID, Token: a.Token, Step: audit.StepStart, Beside: true,
			Code: audit.ReplyRun})
	}
	return c.heard(a, reply), err
}

// Begun takes the step BEGUN.
func (c noting) Begun(ctx context.Context, a counter.Attempt) (counter.Reply, error) {
	c.log.Write(audit.Event{Kind: audit.Asked, ID: a.ID, Token: a.Token})
	return c.Counter.Begun(ctx, a)
}

func (c noting) Fail(ctx context.Context, a counter.Attempt, f counter.Failure) (counter.Reply, error) {
	reply, err := c.Counter.Fail(ctx, a, f)
	return c.heard(a, reply), err
}

func (c noting) heard(a counter.Attempt, reply counter.Reply) counter.Reply {
	if reply.Code == rules.ReplyExhausted {
		c.log.Write(audit.Event{Kind: audit.Decided, ID: a.ID, Token: a.Token})
	}
	return reply
}

func lane(d amqp.Delivery) string {
	return strconv.Itoa(work.Read(d.Body).Lane)
}

// dial opens the connection of one session, and watches it to its end.
func (w *member) dial(ctx context.Context) (*amqp.Connection, error) {
	conn, err := consumer.Dialer(w.AMQP, amqp.Config{
		Heartbeat: w.Heartbeat, Dial: amqp.DefaultDial(5 * time.Second),
		Properties: amqp.Table{"connection_name": fmt.Sprintf("soak %d", w.Number)},
	})(ctx)
	if err != nil {
		return nil, err
	}
	session := int(w.session.Add(1))
	w.log.Write(audit.Event{Kind: audit.Opened, Session: session})
	closed := conn.NotifyClose(make(chan *amqp.Error, 1))
	w.watches.Go(func() {
		reason, broken := <-closed
		switch {
		case broken:
			w.log.Write(audit.Event{Kind: audit.Lost, Session: session, Err: reason.Error()})
		case ctx.Err() == nil: // the consumer gave up the session
			w.log.Write(audit.Event{Kind: audit.Lost, Session: session, Err: "hung up"})
		}
	})
	return conn, nil
}

func (w *member) handle(ctx context.Context, d amqp.Delivery) error {
	attempt, _ := consumer.AttemptFrom(ctx)
	j := work.Read(d.Body)
	e := audit.Event{Kind: audit.Began, ID: d.MessageId, Token: attempt.Token, Session: int(w.session.Load())}
	w.log.Write(e)
	err := j.Run(ctx, func() (int, error) { return attempt.Number, nil })
	if err == nil {
		err = work.Call(ctx, w.Calls)
	}
	e.Kind, e.Outcome = audit.Ended, outcome(ctx, j, err)
	w.log.Write(e)
	if e.Outcome == audit.Panicked {
		panic(err)
	}
	return err
}

// Observe writes down that a message is about to be dead-lettered, and which attempts were counted, or were not.
func (w *member) Observe(_ context.Context, e consumer.Event) {
	if e.Failures+e.Crashes > 0 {
		w.log.Write(audit.Event{Kind: audit.Counted, ID: e.ID, Token: e.Token})
	}
	switch e.Outcome {
	case consumer.OutcomeDeadLetter:
		w.log.Write(audit.Event{Kind: audit.Decided, ID: e.ID, Token: e.Token})
	case consumer.OutcomeNotCounted:
		w.log.Write(audit.Event{Kind: audit.Uncounted, ID: e.ID, Token: e.Token})
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
