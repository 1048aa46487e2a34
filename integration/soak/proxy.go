package main

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// proxy stands between a client and a server, and does to their connections what networks do.
type proxy struct {
	target   string
	listener net.Listener
	tasks    sync.WaitGroup
	ctx      context.Context //nolint:containedctx // ends what the accepted connections wait for
	cancel   context.CancelFunc

	latency atomic.Int64 // of each chunk, in nanoseconds
	mute    atomic.Bool  // what the server says is dropped

	mu    sync.Mutex
	pairs map[*pair]bool
}

// pair is one connection through a proxy.
type pair struct {
	client, server net.Conn
	half           atomic.Bool // the server's side is gone, and the client is not told
}

func newProxy(ctx context.Context, target string) (*proxy, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("proxy of %s: %w", target, err)
	}
	p := &proxy{target: target, listener: listener, pairs: map[*pair]bool{}}
	p.ctx, p.cancel = context.WithCancel(ctx)
	p.tasks.Go(p.accept)
	return p, nil
}

func (p *proxy) addr() string { return p.listener.Addr().String() }

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.tasks.Go(func() { p.join(client) })
	}
}

func (p *proxy) join(client net.Conn) {
	defer client.Close()
	server, err := (&net.Dialer{Timeout: time.Second}).DialContext(p.ctx, "tcp", p.target)
	if err != nil {
		return
	}
	defer server.Close()
	c := &pair{client: client, server: server}
	p.mu.Lock()
	p.pairs[c] = true
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.pairs, c)
	}()
	if p.ctx.Err() != nil {
		return
	}
	var down sync.WaitGroup
	down.Go(func() {
		p.copy(client, server, &p.mute)
		if !c.half.Load() {
			_ = client.Close()
		}
	})
	p.copy(server, client, &c.half)
	_ = server.Close()
	down.Wait()
}

// copy passes on what from says until either side is closed; while drop is set it reads all the same.
func (p *proxy) copy(to, from net.Conn, drop *atomic.Bool) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		if d := p.latency.Load(); d > 0 {
			pause(p.ctx, time.Duration(d))
		}
		if drop.Load() {
			continue
		}
		if _, err := to.Write(buf[:n]); err != nil && !drop.Load() {
			return
		}
	}
}

func (p *proxy) each(do func(*pair)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.pairs {
		do(c)
	}
}

// cut closes every connection on both sides.
func (p *proxy) cut() {
	p.each(func(c *pair) {
		_ = c.client.Close()
		_ = c.server.Close()
	})
}

// halve closes every connection on the server's side, and lets the clients believe in theirs until cut.
func (p *proxy) halve() {
	p.each(func(c *pair) {
		c.half.Store(true)
		_ = c.server.Close()
	})
}

func (p *proxy) close() {
	p.cancel()
	_ = p.listener.Close()
	p.cut()
	p.tasks.Wait()
}
