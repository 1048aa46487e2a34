// Package proxy stands between clients and a server of a test, and disturbs their connections as networks do.
package proxy

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/strikesmq/strikes/internal/pause"
)

// Proxy passes on the connections to a loopback port of its own. Its methods are safe for concurrent use.
type Proxy struct {
	target   string                         // the server
	treat    func(words []string) Treatment // of each request; nil: bytes are passed on as they come
	listener net.Listener
	tasks    sync.WaitGroup
	ctx      context.Context //nolint:containedctx // ends the waits of the accepted connections
	cancel   context.CancelFunc

	latency atomic.Int64 // of each chunk, in nanoseconds
	mute    atomic.Bool  // the bytes of the server are dropped
	refuse  atomic.Bool  // connections are refused

	mu     sync.Mutex
	pairs  map[*pair]bool
	joined func() (left func()) // of Watch; may be nil
}

// pair is one connection through a proxy.
type pair struct {
	client, server net.Conn
	half           atomic.Bool     // the server's side is closed, and the client's side stays open
	frozen         atomic.Bool     // until it is cut
	ctx            context.Context //nolint:containedctx // ends when it is cut
	cut            context.CancelFunc
}

// New starts a proxy of the server at HOST:PORT. It ends with Close; when ctx is done it refuses new connections.
func New(ctx context.Context, target string) (*Proxy, error) { return NewStore(ctx, target, nil) }

// NewStore starts a proxy of a store that speaks RESP2, as Redis does, at target, HOST:PORT. It asks treat about each
// request; nil: it passes on bytes, as New does. The words of a request begin with the command. Several goroutines may
// call treat. A connection that loses something stays open, as it does when a network drops packets: the client finds
// out by its own timeout. It ends as the proxy of New does.
func NewStore(ctx context.Context, target string, treat func(words []string) Treatment) (*Proxy, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("proxy of %s: %w", target, err)
	}
	p := &Proxy{target: target, treat: treat, listener: listener, pairs: map[*pair]bool{}}
	p.ctx, p.cancel = context.WithCancel(ctx)
	p.tasks.Go(p.accept)
	return p, nil
}

// Watch has joined called for each connection to the server that is made from now on, and left once either side has
// ended it. A proxy that treats requests calls neither.
func (p *Proxy) Watch(joined func() (left func())) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.joined = joined
}

// Addr is where clients find it, HOST:PORT.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.tasks.Go(func() { p.join(client) })
	}
}

func (p *Proxy) join(client net.Conn) {
	defer client.Close()
	if p.refuse.Load() {
		return
	}
	server, err := (&net.Dialer{Timeout: time.Second}).DialContext(p.ctx, "tcp", p.target)
	if err != nil {
		return
	}
	defer server.Close()
	c := &pair{client: client, server: server}
	c.ctx, c.cut = context.WithCancel(p.ctx)
	defer c.cut()
	p.mu.Lock()
	p.pairs[c] = true
	joined := p.joined
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.pairs, c)
	}()
	if p.ctx.Err() != nil || p.refuse.Load() {
		return
	}
	if p.treat != nil {
		p.exchange(c)
		return
	}
	if joined != nil {
		defer joined()()
	}
	var down sync.WaitGroup
	down.Go(func() {
		p.copy(c, client, server, p.mute.Load)
		if !c.half.Load() {
			_ = client.Close()
		}
	})
	p.copy(c, server, client, c.half.Load)
	_ = server.Close()
	down.Wait()
}

// copy passes on the bytes of from until either side is closed. While it drops data, it still reads; afterwards it
// ends, for nothing that follows a hole would be understood.
func (p *Proxy) copy(c *pair, to, from net.Conn, drop func() bool) {
	buf := make([]byte, 32<<10)
	for hole := false; ; {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		if c.frozen.Load() {
			<-c.ctx.Done()
		}
		if d := p.latency.Load(); d > 0 {
			pause.For(c.ctx, time.Duration(d))
		}
		if drop() {
			hole = true
			continue
		}
		if hole {
			return
		}
		if _, err := to.Write(buf[:n]); err != nil && !drop() {
			return
		}
	}
}

func (p *Proxy) each(do func(*pair)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.pairs {
		do(c)
	}
}

// Cut closes every connection on both sides.
func (p *Proxy) Cut() {
	p.each(func(c *pair) {
		_ = c.client.Close()
		_ = c.server.Close()
		c.cut()
	})
}

// Freeze passes on nothing more of the connections that there are, nor reads from them: a large write hangs. They stay
// open until Cut.
func (p *Proxy) Freeze() {
	p.each(func(c *pair) { c.frozen.Store(true) })
}

// Say sends b to all clients, as if the server had. Call it while nothing else is on its way.
func (p *Proxy) Say(b []byte) {
	p.each(func(c *pair) { _, _ = c.client.Write(b) })
}

// Halve closes every connection on the server's side, and lets the clients believe in theirs until Cut.
func (p *Proxy) Halve() {
	p.each(func(c *pair) {
		c.half.Store(true)
		_ = c.server.Close()
	})
}

// Delay holds up each chunk for d, either way. Zero: no longer.
func (p *Proxy) Delay(d time.Duration) { p.latency.Store(int64(d)) }

// Mute drops the bytes of the server. Turned off, it cuts the connections, for they have holes.
func (p *Proxy) Mute(on bool) {
	p.mute.Store(on)
	if !on {
		p.Cut()
	}
}

// Refuse cuts the connections and every new one, until it is turned off.
func (p *Proxy) Refuse(on bool) {
	p.refuse.Store(on)
	if on {
		p.Cut()
	}
}

// Close ends every connection and waits for that. A nil Proxy has none.
func (p *Proxy) Close() {
	if p == nil {
		return
	}
	p.cancel()
	_ = p.listener.Close()
	p.Cut()
	p.tasks.Wait()
}
