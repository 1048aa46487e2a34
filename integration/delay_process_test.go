package integration

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/counter/rules"
	"github.com/strikesmq/strikes/internal/broker"
)

// delayPoints are where such a process kills itself.
var delayPoints = []string{"before FAIL", "after FAIL", "after the confirm", "after MOVED", "after the ack"}

// delayWorker fails the first attempt at each message. It writes a log with one line for each event: see readDelayLog.
type delayWorker struct {
	AMQP, Redis, Prefix, Queue, Log string
	Delay, Above                    time.Duration // of a failed message, and the wait that moves it, by the store's clock
	Point                           string        // empty: it lives
	After                           int64         // so many others passed the point
}

// mortal is a Counter whose process dies at a point.
type mortal struct {
	hurried
	delayWorker
	log    *os.File
	passed atomic.Int64
}

func (m *mortal) pass(point string) {
	if point == m.Point && m.passed.Add(1) > m.After {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // nothing follows
	}
}

// write is one write of the system, so a killed process leaves whole lines.
func (m *mortal) write(event, id, token string) error {
	return errOf(fmt.Fprintf(m.log, "%s %s %s\n", event, id, token))
}

// Start makes a WAIT, which may be for the lease of a move, end when the message may be due.
func (m *mortal) Start(ctx context.Context, a counter.Attempt, mode rules.Mode, limit int) (counter.Reply, error) {
	reply, err := m.hurried.Start(ctx, a, mode, limit)
	if reply.Code == rules.ReplyWait {
		reply.Wait = min(reply.Wait, m.Above)
	}
	return reply, err
}

func (m *mortal) Begun(ctx context.Context, a counter.Attempt) (counter.Reply, error) {
	_ = m.write("isolated", a.ID, a.Token) // before the store knows of it: it may take the step, and lose the reply
	return m.hurried.Begun(ctx, a)
}

func (m *mortal) Fail(ctx context.Context, a counter.Attempt, f counter.Failure) (counter.Reply, error) {
	m.pass("before FAIL")
	reply, err := m.hurried.Fail(ctx, a, f)
	if err == nil {
		err = m.write("failed", a.ID, a.Token)
	}
	m.pass("after FAIL")
	return reply, err
}

func (m *mortal) Moved(ctx context.Context, a counter.Attempt, copyNumber int64) error {
	_ = m.write("moved", a.ID, a.Token) // without it the audit asks for less
	m.pass("after the confirm")
	err := m.Counter.Moved(ctx, a, copyNumber)
	m.pass("after MOVED")
	return err
}

func (m *mortal) End(ctx context.Context, a counter.Attempt, succeeded bool) error {
	err := m.Counter.End(ctx, a, succeeded)
	if err == nil && succeeded {
		err = m.write("succeeded", a.ID, a.Token)
	}
	return err
}

func (m *mortal) Observe(_ context.Context, e consumer.Event) {
	if e.Outcome == consumer.OutcomeMove {
		m.pass("after the ack")
	}
}

// handle takes a moment, so that a process that dies leaves few moves unfinished: each holds its message for the lease.
func (m *mortal) handle(ctx context.Context, d amqp.Delivery) error {
	a, _ := consumer.AttemptFrom(ctx)
	event := "attempt"
	if d.Headers[broker.CopyHeader] != nil {
		event = "copy"
	}
	if err := m.write(event, d.MessageId, a.Token); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
	case <-time.After(10 * time.Millisecond):
	}
	if a.Number == 1 {
		return consumer.RetryAfter(errors.New("not yet"), 2*time.Minute)
	}
	return nil
}

func (w delayWorker) run(ctx context.Context) error {
	log, err := os.OpenFile(w.Log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	store, err := counter.Dial(w.Redis, &counter.Options{Prefix: w.Prefix})
	if err != nil {
		return err
	}
	m := &mortal{hurried: hurried{store, w.Delay, w.Above}, delayWorker: w, log: log}
	c := consumer.Consumer{
		Queue: w.Queue, Counter: m, Observer: m, Handler: m.handle, DelayAbove: time.Minute, MaxRetries: delayLimit - 1,
		Concurrency: 4, Prefetch: 500,
	}
	return c.Run(ctx, func(context.Context) (*amqp.Connection, error) { return amqp.Dial(w.AMQP) })
}

// start starts a worker, which is killed when the test ends.
func (w delayWorker) start(t *testing.T) *exec.Cmd {
	t.Helper()
	cmd := worker{Delay: &w}.command(t)
	need(t, cmd.Start())
	return cmd
}
