package main

import (
	"context"
	"errors"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/internal/proxy"
)

// way is how one client reaches the broker: a proxy for each node.
type way []*proxy.Proxy

func newWay(ctx context.Context, b *broker) (w way, err error) {
	for _, n := range b.nodes {
		p, err := proxy.New(ctx, n.host)
		if err != nil {
			w.Close()
			return nil, err
		}
		w = append(w, p)
	}
	return w, nil
}

// urls are the nodes' URLs with the proxies' addresses in them.
func (w way) urls(b *broker) (all []string) {
	for i, p := range w {
		all = append(all, b.nodes[i].at(p.Addr()))
	}
	return all
}

func (w way) Cut()                  { w.each((*proxy.Proxy).Cut) }
func (w way) Halve()                { w.each((*proxy.Proxy).Halve) }
func (w way) Mute(on bool)          { w.each(func(p *proxy.Proxy) { p.Mute(on) }) }
func (w way) Delay(d time.Duration) { w.each(func(p *proxy.Proxy) { p.Delay(d) }) }
func (w way) Close()                { w.each((*proxy.Proxy).Close) }

func (w way) each(do func(*proxy.Proxy)) {
	for _, p := range w {
		do(p)
	}
}

// dialler dials the nodes in turn: the next one after each that lets nobody in, or whose connection was lost. It is for one
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
