package publisher

import (
	"net"
	"sync"
	"time"
)

const (
	// roomToGather is how many bytes may wait for the socket, and one write more; then writers wait for it, as they would
	// without a gatherer.
	roomToGather = 64 << 10

	// lastWrite bounds how long Close waits for a peer that reads no more.
	lastWrite = 250 * time.Millisecond
)

// gatherer is a socket that sends together what many goroutines write at once. amqp091-go hands each message to the socket
// on its own, and a system call here and a wake-up of the broker for each are a good part of what it costs.
//
// A Write returns once its bytes are in line: they are lost if the process dies, or the connection, before they are sent. So
// it is for a publisher, who takes nothing for sent that is not confirmed; not for a consumer, whose acks would be lost with
// a process that is killed by the next message.
type gatherer struct {
	net.Conn

	mu      sync.Mutex
	changed sync.Cond // what follows
	waiting []byte
	err     error // of the socket; it ends everything
	closing bool

	ended chan struct{} // closed once nothing is sent any more
}

func gather(socket net.Conn) *gatherer {
	g := &gatherer{Conn: socket, ended: make(chan struct{})}
	g.changed.L = &g.mu
	go g.send()
	return g
}

func (g *gatherer) Write(b []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for len(g.waiting) >= roomToGather && g.err == nil && !g.closing {
		g.changed.Wait()
	}
	switch {
	case g.err != nil:
		return 0, g.err
	case g.closing:
		return 0, net.ErrClosed
	}
	if len(g.waiting) == 0 {
		g.changed.Broadcast()
	}
	g.waiting = append(g.waiting, b...)
	return len(b), nil
}

// Close lets what is in line be sent, if the peer takes it, and closes the socket.
func (g *gatherer) Close() error {
	g.mu.Lock()
	g.closing = true
	g.changed.Broadcast()
	g.mu.Unlock()
	giveUp := time.AfterFunc(lastWrite, func() { _ = g.Conn.Close() })
	defer giveUp.Stop()
	<-g.ended
	return g.Conn.Close()
}

// send writes to the socket until it fails, or the gatherer is closed and nothing is left.
func (g *gatherer) send() {
	defer close(g.ended)
	var b []byte
	for {
		if b = g.next(b); len(b) == 0 {
			return
		}
		if _, err := g.Conn.Write(b); err != nil {
			g.fail(err)
			return
		}
	}
}

// next waits for what is to be sent, and leaves the buffer of what was sent before, unless it is large, for what comes after it.
func (g *gatherer) next(spare []byte) []byte {
	if cap(spare) > 4*roomToGather {
		spare = nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for len(g.waiting) == 0 && !g.closing {
		g.changed.Wait()
	}
	b := g.waiting
	g.waiting = spare[:0]
	g.changed.Broadcast() // there is room
	return b
}

// fail tells writers, and by closing the socket whoever reads.
func (g *gatherer) fail(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.err = err
	g.changed.Broadcast()
	_ = g.Conn.Close()
}
