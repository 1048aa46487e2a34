// Package delay publishes copies of messages to delay queues.
package delay

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/consumer/internal/bound"
	"github.com/strikesmq/strikes/internal/broker"
)

const (
	// Timeout is how long the broker may take to confirm a copy: well within the lease of a move.
	Timeout = 10 * time.Second

	// copyChannels is how many copies a session publishes at the same time.
	copyChannels = 8
)

// Publisher publishes copies of messages as mandatory. Each has a channel to itself until its confirm, so a return
// belongs to that copy.
type Publisher struct {
	conn    *amqp.Connection
	room    int               // bytes that properties and headers of a copy may take; zero: any number
	idle    chan *copyChannel // nil: to be opened
	blocked *atomic.Bool      // the broker takes no publishing, and reads a copy that is written now only after the alarm
}

type copyChannel struct {
	*amqp.Channel
	returned chan amqp.Return
	closed   chan *amqp.Error
}

// NewPublisher returns one that opens its channels on conn when it needs them.
func NewPublisher(conn *amqp.Connection) *Publisher {
	c := &Publisher{conn: conn, room: broker.HeaderRoom(conn.Config.FrameSize),
		idle: make(chan *copyChannel, copyChannels), blocked: alarms.on(conn)}
	for range copyChannels {
		c.idle <- nil
	}
	return c
}

// alarms follows the alarms of the broker on each connection that has a delay queue's publisher.
var alarms = alarmed{of: map[*amqp.Connection]*atomic.Bool{}}

// alarmed holds, for each connection, whether the broker blocks it. A connection has one goroutine that follows this,
// however many sessions it serves: amqp091-go notifies until the connection ends, and its reader waits for the
// receiver.
type alarmed struct {
	mu sync.Mutex
	of map[*amqp.Connection]*atomic.Bool
}

// on returns whether the broker blocks the connection, from now on.
func (a *alarmed) on(conn *amqp.Connection) *atomic.Bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if blocked := a.of[conn]; blocked != nil {
		return blocked
	}
	blocked := new(atomic.Bool)
	a.of[conn] = blocked
	go a.follow(conn, conn.NotifyBlocked(make(chan amqp.Blocking, 1)), blocked)
	return blocked
}

// follow ends with the connection.
func (a *alarmed) follow(conn *amqp.Connection, notices <-chan amqp.Blocking, blocked *atomic.Bool) {
	for notice := range notices {
		blocked.Store(notice.Active)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.of, conn)
}

var errBlocked = errors.New("the broker blocks publishing: it is short of memory or disk space; free some")

// Send returns nil once the broker has confirmed the copy. After errBlocked, or an error about the size, there is no
// copy. After another error there may be one.
func (c *Publisher) Send(ctx context.Context, delayQueue, queue string, copied amqp.Publishing) error {
	if c.blocked.Load() {
		return errBlocked
	}
	size, err := broker.HeaderSize(delayQueue, queue, &copied)
	switch {
	case err != nil:
		return err
	case c.room > 0 && size > c.room:
		return fmt.Errorf("properties and headers take %d bytes, and a frame of this connection has room for %d beside the "+
			"headers that brokers add; raise frame_max, or send smaller headers", size, c.room)
	}
	var ch *copyChannel
	select {
	case ch = <-c.idle:
	case <-ctx.Done():
		return ctx.Err()
	}
	kept, err := bound.Await(ctx, Timeout, func() (*copyChannel, error) {
		return c.publish(ctx, ch, delayQueue, queue, copied)
	}, (*copyChannel).discard)
	c.idle <- kept
	return err
}

// Close closes the channels that are idle. The others end with the connection.
func (c *Publisher) Close() {
	for range copyChannels {
		select {
		case ch := <-c.idle:
			ch.discard()
		default:
		}
	}
}

// publish returns the channel for the next copy, nil if this one must not be used again. It publishes nothing after
// Timeout, when the caller no longer waits for it.
func (c *Publisher) publish(ctx context.Context, ch *copyChannel, delayQueue, queue string,
	copied amqp.Publishing) (*copyChannel, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), Timeout)
	defer cancel()
	if ch == nil || ch.IsClosed() {
		opened, err := c.open()
		if err != nil {
			return nil, err
		}
		ch = opened
	}
	switch err := ctx.Err(); {
	case err != nil: // the copy was given up while the channel was opened
		ch.discard()
		return nil, err
	case c.blocked.Load():
		return ch, errBlocked
	}
	confirm, err := ch.PublishWithDeferredConfirmWithContext(ctx, delayQueue, queue, true, false, copied)
	acked := false
	if err == nil {
		acked, err = confirm.WaitContext(ctx)
	}
	if err != nil || !acked {
		return nil, errors.Join(ch.refused(), err)
	}
	select {
	case r := <-ch.returned:
		ch.discard()
		return nil, fmt.Errorf("the exchange is bound to no queue (%d %s); declare it again: topology.Declare "+
			"with DelayQueues", r.ReplyCode, r.ReplyText)
	default:
		return ch, nil
	}
}

func (c *Publisher) open() (*copyChannel, error) {
	ch, err := c.conn.Channel()
	if err != nil {
		return nil, err
	}
	out := &copyChannel{Channel: ch, returned: ch.NotifyReturn(make(chan amqp.Return, 1)),
		closed: ch.NotifyClose(make(chan *amqp.Error, 1))}
	if err := ch.Confirm(false); err != nil {
		out.discard()
		return nil, err
	}
	return out, nil
}

var errCopyRefused = errors.New("the broker refused the copy: the queue may be full")

// refused says why a copy was not confirmed, and closes the channel.
func (ch *copyChannel) refused() error {
	defer ch.discard()
	if !ch.IsClosed() {
		return errCopyRefused
	}
	select {
	case err := <-ch.closed:
		if err != nil {
			return err
		}
	default:
	}
	return amqp.ErrClosed
}

func (ch *copyChannel) discard() {
	if ch != nil {
		_ = ch.Close() // it is often closed already
	}
}
