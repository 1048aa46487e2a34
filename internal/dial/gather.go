package dial

import (
	"net"
	"runtime"
	"sync"
	"time"
)

const (
	// roomToGather is how many bytes may wait for the socket; then writers wait for it, as they would without a gatherer.
	roomToGather = 64 << 10

	// lastWrite bounds how long Close waits for a peer that reads no more.
	lastWrite = 250 * time.Millisecond
)

// gatherer is a socket that sends together what many goroutines write at once. amqp091-go hands each ack, nack and message to
// the socket on its own, and a system call here and a wake-up of the broker for each are a good part of what it costs.
//
// A Write returns once its bytes are in line. If they cannot be sent, a later Write hears of it, and whoever reads: nothing
// more can be inferred from a bare socket, whose Write returns once the kernel has the bytes.
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

// Close sends what is in line, if the peer takes it, and closes the socket.
func (g *gatherer) Close() error {
	g.mu.Lock()
	if !g.closing {
		g.closing = true
		_ = g.SetWriteDeadline(time.Now().Add(lastWrite))
		g.changed.Broadcast()
	}
	g.mu.Unlock()
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

// next waits for what is to be sent, and leaves the buffer of what was sent before for what comes after it.
func (g *gatherer) next(spare []byte) []byte {
	g.mu.Lock()
	defer g.mu.Unlock()
	for len(g.waiting) == 0 && !g.closing {
		g.changed.Wait()
	}
	g.mu.Unlock()
	runtime.Gosched() // whoever is about to write as well does it first
	g.mu.Lock()
	b := g.waiting
	g.waiting = spare[:0]
	g.changed.Broadcast() // there is room
	return b
}

func (g *gatherer) fail(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.err = err
	g.changed.Broadcast()
}
