package figures

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/publisher"
)

// feeder keeps a backlog in the queue.
type feeder struct {
	on      *setup
	body    string
	fail    func()      // called when it cannot go on
	starved atomic.Bool // the queue was found empty

	conn *amqp.Connection
	ch   *amqp.Channel
	out  *publisher.Publisher
	over chan struct{}
	task sync.WaitGroup
	err  error // why it failed; valid once it was stopped, or fail was called
}

// start fills the queue, and keeps it so until stop.
func (f *feeder) start(ctx context.Context) (err error) {
	if f.conn, err = f.on.dial(ctx); err != nil {
		return err
	}
	if f.ch, err = f.conn.Channel(); err == nil {
		f.out, err = f.on.producer(ctx)
	}
	if err == nil {
		err = f.more(ctx, backlog)
	}
	if err != nil {
		_ = f.conn.Close()
		return err
	}
	f.over = make(chan struct{})
	f.task.Go(func() { f.feed(ctx) })
	return nil
}

func (f *feeder) feed(ctx context.Context) {
	for {
		q, err := f.ch.QueueDeclarePassive(queue, true, false, false, false, nil)
		if err == nil && q.Messages < backlog {
			f.starved.CompareAndSwap(false, q.Messages == 0)
			err = f.more(ctx, backlog-q.Messages)
		}
		if err != nil {
			f.err = fmt.Errorf("feeding the queue: %w", err)
			f.fail()
			return
		}
		select {
		case <-f.over:
			return
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (f *feeder) more(ctx context.Context, n int) error {
	return f.on.publish(ctx, f.out, slices.Repeat([]string{f.body}, n)...)
}

func (f *feeder) stop() {
	close(f.over)
	f.task.Wait()
	_ = f.out.Close()
	_ = f.conn.Close()
}
