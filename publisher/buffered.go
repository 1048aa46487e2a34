package publisher

import (
	"context"
	"net"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/internal/broker"
)

// BufferedDialer returns a dial function for New. It is consumer.Dialer with a connection that sends together the
// messages that many goroutines publish concurrently. amqp091-go alone makes a system call per message. It delays no
// message, but a message that still waits for the socket is lost if the process dies. So use it for publishing with
// confirms, not for a consumer: it may lose acks.
func BufferedDialer(url string, config amqp.Config) func(context.Context) (*amqp.Connection, error) {
	return func(ctx context.Context) (*amqp.Connection, error) {
		return broker.Dial(ctx, url, config, func(socket net.Conn) net.Conn { return buffered(socket) })
	}
}

const (
	// bufferSize is how many bytes may wait for the socket, and one write more. Then writers wait, as for a plain socket.
	bufferSize = 64 << 10

	// lastWrite bounds how long Close waits for a peer that does not read.
	lastWrite = 250 * time.Millisecond
)

// bufferedConn is a socket that sends together the bytes that many goroutines write concurrently. amqp091-go writes
// each message on its own. A system call here and a wake-up of the broker for each are a good part of the cost.
//
// A Write returns before its bytes are sent: they are lost if the process dies, or the connection. A publisher takes
// nothing for sent that is not confirmed. A consumer's acks would be lost with a process that the next message kills.
type bufferedConn struct {
	net.Conn

	mu      sync.Mutex
	changed sync.Cond // one of the following
	waiting []byte
	err     error // of the socket; no write follows it
	closing bool

	ended chan struct{} // closed after the last write to the socket
}

func buffered(socket net.Conn) *bufferedConn {
	c := &bufferedConn{Conn: socket, ended: make(chan struct{})}
	c.changed.L = &c.mu
	go c.send()
	return c
}

func (c *bufferedConn) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.waiting) >= bufferSize && c.err == nil && !c.closing {
		c.changed.Wait()
	}
	switch {
	case c.err != nil:
		return 0, c.err
	case c.closing:
		return 0, net.ErrClosed
	}
	if len(c.waiting) == 0 {
		c.changed.Broadcast()
	}
	c.waiting = append(c.waiting, b...)
	return len(b), nil
}

// Close sends the buffered bytes, if the peer takes them, and closes the socket.
func (c *bufferedConn) Close() error {
	c.mu.Lock()
	c.closing = true
	c.changed.Broadcast()
	c.mu.Unlock()
	giveUp := time.AfterFunc(lastWrite, func() { _ = c.Conn.Close() })
	defer giveUp.Stop()
	<-c.ended
	return c.Conn.Close()
}

// send writes to the socket until it fails, or until Close was called and the buffer is empty.
func (c *bufferedConn) send() {
	defer close(c.ended)
	var b []byte
	for {
		if b = c.next(b); len(b) == 0 {
			return
		}
		if _, err := c.Conn.Write(b); err != nil {
			c.fail(err)
			return
		}
	}
}

// next waits for bytes to send. It takes back the previous buffer for the next writes, unless it has grown large.
func (c *bufferedConn) next(spare []byte) []byte {
	if cap(spare) > 4*bufferSize {
		spare = nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.waiting) == 0 && !c.closing {
		c.changed.Wait()
	}
	b := c.waiting
	c.waiting = spare[:0]
	c.changed.Broadcast() // room for writers
	return b
}

// fail makes writers fail, and closes the socket so that readers do.
func (c *bufferedConn) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = err
	c.changed.Broadcast()
	_ = c.Conn.Close()
}
