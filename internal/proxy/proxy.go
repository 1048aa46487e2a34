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
	targets  []string                       // the servers, which it dials in turn
	dialled  atomic.Int64                   // how often
	treat    func(words []string) Treatment // of each request; nil: bytes are passed on as they come
	listener net.Listener
	tasks    sync.WaitGroup
	ctx      context.Context //nolint:containedctx // ends the waits of the accepted connections
	cancel   context.CancelFunc

	latency atomic.Int64 // of each chunk, in nanoseconds
	mute    atomic.Bool  // the bytes of the server are dropped
	deaf    atomic.Bool  // the bytes of the client are
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

// New starts a proxy of the server at HOST:PORT, or of several, to which its connections lead in turn. It ends with
// Close; when ctx is done it refuses new connections.
func New(ctx context.Context, targets ...string) (*Proxy, error) {
	return start(ctx, targets, nil)
}

func start(ctx context.Context, targets []string, treat func(words []string) Treatment) (*Proxy, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("proxy of %q: %w", targets, err)
	}
	p := &Proxy{targets: targets, treat: treat, listener: listener, pairs: map[*pair]bool{}}
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
	server := p.dial()
	if server == nil {
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
	p.copy(c, server, client, func() bool { return c.half.Load() || p.deaf.Load() })
	_ = server.Close()
	down.Wait()
}

// dial connects to the next server that accepts a connection; nil: none does.
func (p *Proxy) dial() net.Conn {
	for range p.targets {
		next := p.targets[int(p.dialled.Add(1)-1)%len(p.targets)]
		if conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(p.ctx, "tcp", next); err == nil {
			return conn
		}
	}
	return nil
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

// Block drops the bytes of both sides, silently, as a firewall does. Turned off, it cuts the connections.
func (p *Proxy) Block(on bool) {
	p.deaf.Store(on)
	p.Mute(on)
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
