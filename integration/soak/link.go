package main

import (
	"context"
	"errors"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/internal/proxy"
)

// links is how one client reaches the broker: a proxy for each node.
type links []*proxy.Proxy

func newLinks(ctx context.Context, b *broker) (w links, err error) {
	for _, n := range b.nodes {
		p, err := proxy.New(ctx, n.Host())
		if err != nil {
			w.Close()
			return nil, err
		}
		w = append(w, p)
	}
	return w, nil
}

// urls are the nodes' URLs with the proxies' addresses in them.
func (l links) urls(b *broker) (all []string) {
	for i, p := range l {
		all = append(all, b.nodes[i].Through(p.Addr()))
	}
	return all
}

func (l links) Cut()                  { l.each((*proxy.Proxy).Cut) }
func (l links) Halve()                { l.each((*proxy.Proxy).Halve) }
func (l links) Mute(on bool)          { l.each(func(p *proxy.Proxy) { p.Mute(on) }) }
func (l links) Delay(d time.Duration) { l.each(func(p *proxy.Proxy) { p.Delay(d) }) }
func (l links) Close()                { l.each((*proxy.Proxy).Close) }

func (l links) each(do func(*proxy.Proxy)) {
	for _, p := range l {
		do(p)
	}
}

// dialler dials the nodes in turn: the next one after each that refuses, or that loses the connection. It is for one
// goroutine at a time.
type dialler struct {
	urls   []string
	dialer func(url string, config amqp.Config) func(context.Context) (*amqp.Connection, error)
	next   int
}

func (d *dialler) dial(ctx context.Context, config amqp.Config) (*amqp.Connection, error) {
	var errs []error
	for range d.urls {
		url := d.urls[d.next%len(d.urls)]
		d.next++
		conn, err := d.dialer(url, config)(ctx)
		if err == nil {
			return conn, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}
