package soak

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/integration/internal/fleet"
	"github.com/strikesmq/strikes/integration/internal/work"
	"github.com/strikesmq/strikes/internal/audit"
)

// workerSpec is what one consumer process is told.
type workerSpec struct {
	AMQP                      []string // a URL for each node of the broker
	Redis, Queue, History     string
	Number                    int
	Concurrency, Prefetch     int
	MaxRetries                int
	HandlerTimeout            time.Duration
	ConsumerTimeout           time.Duration
	Heartbeat                 time.Duration
	FirstBackoff, MostBackoff time.Duration
	Ordered                   bool
	Lanes                     int
	Verbose                   bool
	Endpoint                  string // not empty: this is no consumer, but the endpoint at this address
}

// member is that process. It writes down what it does before it does it, and what it learns as soon as it has.
type member struct {
	workerSpec
	log     *audit.Log
	nodes   fleet.Dialler
	session atomic.Int64
	watches sync.WaitGroup

	isolating sync.Map     // tokens of attempts that START let run isolated
	isolated  atomic.Int64 // handlers of theirs that run, and are within their deadline
}

func runWorker(ctx context.Context, spec workerSpec) error {
	if spec.Endpoint != "" {
		return runEndpoint(ctx, spec)
	}
	w := member{workerSpec: spec}
	// the processes begin at different nodes
	w.nodes = fleet.Dialler{URLs: w.AMQP, Dialer: consumer.Dialer, Next: w.Number}
	var err error
	if w.log, err = audit.Append(w.History, w.Number); err != nil {
		return err
	}
	counts, err := counter.Dial(w.Redis, nil)
	if err != nil {
		return err
	}
	err = w.consumer(counts).Run(ctx, func(context.Context) (*amqp.Connection, error) { return w.dial(ctx) })
	w.log.Write(audit.Event{Kind: audit.Stopped, Err: text(err)})
	w.watches.Wait()
	return errors.Join(err, counts.Close(), w.log.Close())
}

func (w *member) consumer(counts *counter.Counter) *consumer.Consumer {
	c := &consumer.Consumer{
		Queue: w.Queue, Handler: w.handle, Counter: recorder{counts, w}, MaxRetries: w.MaxRetries,
		Concurrency: w.Concurrency, Prefetch: w.Prefetch, Backoff: w.backoff,
		HandlerTimeout: w.HandlerTimeout, ConsumerTimeout: w.ConsumerTimeout, DrainTimeout: drainTimeout, Observer: w,
	}
	if c.Ordered = w.Ordered; w.Lanes > 1 {
		c.Lane = lane
	}
	if w.Verbose {
		c.Logger = slog.New(slog.NewTextHandler(os.Stderr, nil)).With("process", w.Number)
	}
	return c
}

func lane(d amqp.Delivery) string {
	j, _ := work.Read(d.Body) // what cannot be read is rejected, in any lane
	return strconv.Itoa(j.Lane)
}

func (w *member) backoff(failures int) time.Duration {
	return min(w.FirstBackoff<<min(failures, 20), w.MostBackoff)
}

// dial opens the connection of one session, and watches it to its end.
func (w *member) dial(ctx context.Context) (*amqp.Connection, error) {
	conn, err := w.nodes.Dial(ctx, amqp.Config{
		Heartbeat: w.Heartbeat, Dial: amqp.DefaultDial(5 * time.Second),
		Properties: amqp.Table{"connection_name": fmt.Sprintf("soak %d", w.Number)},
	})
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
	j, err := work.Read(d.Body)
	if err != nil {
		return consumer.Reject(err)
	}
	e := audit.Event{Kind: audit.Began, ID: d.MessageId, Token: attempt.Token, Session: int(w.session.Load()),
		Redelivered: d.Redelivered}
	w.log.Write(e)
	defer w.isolate(ctx, attempt.Token)()
	err = j.Run(ctx, func() (int, error) { return attempt.Number, nil }, func() bool { return w.isolated.Load() > 0 })
	e.Kind, e.Outcome = audit.Ended, outcome(ctx, j, err)
	if j.Do == audit.Panic && errors.Is(err, work.ErrJob) {
		e.Outcome = audit.Panicked
		w.log.Write(e)
		panic(err)
	}
	w.log.Write(e)
	return err
}

// isolate counts the handler among those that run isolated, if it does, until its deadline or until over is called.
func (w *member) isolate(ctx context.Context, token string) (over func()) {
	if _, ok := w.isolating.LoadAndDelete(token); !ok {
		return func() {}
	}
	w.isolated.Add(1)
	over = sync.OnceFunc(func() { w.isolated.Add(-1) })
	context.AfterFunc(ctx, over)
	return over
}

// Observe writes down what was settled a delivery.
func (w *member) Observe(_ context.Context, e consumer.Event) {
	w.log.Write(audit.Event{
		Kind: audit.Decided, Session: int(w.session.Load()), ID: e.ID, Token: e.Token, Redelivered: e.Redelivered,
		Decision: string(e.Outcome), Held: e.Elapsed, Cause: string(e.Cause), Unrun: e.Attempt == 0, Failures: e.Failures,
		Crashes: e.Crashes, Limit: e.Limit, Err: text(e.Err),
	})
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
