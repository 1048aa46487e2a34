package faults

import (
	"context"
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/strikesmq/strikes/integration/internal/rig"
	"github.com/strikesmq/strikes/internal/audit"
	"github.com/strikesmq/strikes/internal/pause"
	"github.com/strikesmq/strikes/internal/proxy"
)

// do is the function of a kind in these tables.
type do = func(context.Context, Trouble) error

// anywhere are the kinds that any broker and store can stand.
var anywhere = []Kind{
	{Name: "sigkill", needs: "seats", Do: signalling(syscall.SIGKILL)},
	{Name: "sigterm", needs: "seats", Do: signalling(syscall.SIGTERM)},
	{Name: "zombie", needs: "seats", least: 3*Heartbeat + time.Second/2, most: 3*Heartbeat + 2*time.Second, Do: freeze},
	{Name: "blink", needs: "seats", most: time.Second, Do: freeze},
	{Name: "broker-cut", Do: during(brokerOf, cut, nothing)},
	{Name: "broker-half-open", most: 3 * Heartbeat, Do: during(brokerOf, (*proxy.Proxy).Halve, cut)},
	{Name: "broker-latency", most: 3 * time.Second, Do: during(brokerOf, delay(300*time.Millisecond), delay(0))},
	{Name: "broker-mute", most: 3 * time.Second, Do: during(brokerOf, mute, unmute)},
	{Name: "store-pause", needs: "store", most: 8 * time.Second, Do: func(ctx context.Context, t Trouble) error {
		return paused(ctx, t, t.Store.Server())
	}},
	{Name: "store-kill", needs: "store", most: 8 * time.Second, Do: killStore},
	{Name: "store-flush", needs: "store", Do: func(ctx context.Context, t Trouble) error {
		err := t.Store.Flush(ctx)
		t.forgot()
		return err
	}},
	{Name: "store-cut", Do: during(storeOf, cut, nothing)},
	{Name: "store-latency", most: 3 * time.Second, Do: during(storeOf, delay(400*time.Millisecond), delay(0))},
	{Name: "store-mute", most: 3 * time.Second, Do: during(storeOf, mute, unmute)},
	{Name: "confirms-cut", needs: "producer", Do: during(producerOf, cut, nothing)},
	{Name: "confirms-mute", needs: "producer", most: 3 * time.Second, Do: during(producerOf, mute, unmute)},
}

// StoreTerminate ends the sessions in a database, whatever they do.
var StoreTerminate = Kind{Name: "store-terminate", needs: "store",
	Do: func(ctx context.Context, t Trouble) error { return t.Store.Terminate(ctx) }}

// StoresMute loses every reply of the store to all processes for a while, and then the connections.
var StoresMute = Kind{Name: "stores-mute", needs: "store", most: 3 * time.Second, Do: during(storesOf, mute, unmute)}

// DependencyAway cuts the dependency off. No handler that calls it can succeed meanwhile.
var DependencyAway = Kind{Name: audit.DependencyAway, needs: "dependency", Do: during(dependencyOf, refuse, accept)}

// BrokerKill kills the broker and starts it again.
var BrokerKill = Kind{Name: audit.BrokerKill, needs: "broker", most: 2 * time.Second,
	Do: func(ctx context.Context, t Trouble) error {
		if err := t.Broker.Kill(ctx); err != nil {
			return err
		}
		pause.For(ctx, t.lasts)
		return t.Broker.Start(ctx)
	}}

// ofPrivateBroker are for a broker that is this program's own.
var ofPrivateBroker = []Kind{
	{Name: audit.BrokerRestart, needs: "broker",
		Do: func(ctx context.Context, t Trouble) error { return t.Broker.Restart(ctx) }},
	{Name: "broker-pause", needs: "broker", most: 4 * Heartbeat, Do: func(ctx context.Context, t Trouble) error {
		return paused(ctx, t, t.Broker.Private)
	}},
}

// Possible are the kinds that a broker allows.
func Possible(b *rig.Broker) []Kind {
	all := slices.Clone(anywhere)
	if b.CanKill() {
		all = append(all, BrokerKill)
	}
	if b.Private != nil {
		all = append(all, ofPrivateBroker...)
	}
	return all
}

// Named picks kinds by their names.
func Named(all []Kind, names ...string) (some []Kind, err error) {
	for _, name := range names {
		i := slices.IndexFunc(all, func(k Kind) bool { return k.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("there is no fault %q on this broker", name)
		}
		some = append(some, all[i])
	}
	return some, nil
}

// lines are the proxies that a fault is about.
type lines func(Trouble) []*proxy.Proxy

func brokerOf(t Trouble) []*proxy.Proxy     { return []*proxy.Proxy{t.seat.Broker} }
func storeOf(t Trouble) []*proxy.Proxy      { return []*proxy.Proxy{t.seat.Store} }
func producerOf(t Trouble) []*proxy.Proxy   { return []*proxy.Proxy{t.Producer} }
func dependencyOf(t Trouble) []*proxy.Proxy { return []*proxy.Proxy{t.Dependency.Link} }

func storesOf(t Trouble) (all []*proxy.Proxy) {
	for _, s := range t.Fleet.Seats {
		all = append(all, s.Store)
	}
	return all
}

func cut(p *proxy.Proxy)    { p.Cut() }
func nothing(*proxy.Proxy)  {}
func mute(p *proxy.Proxy)   { p.Mute(true) }
func unmute(p *proxy.Proxy) { p.Mute(false) } // and cut the connections that missed bytes
func refuse(p *proxy.Proxy) { p.Refuse(true) }
func accept(p *proxy.Proxy) { p.Refuse(false) }

func delay(d time.Duration) func(*proxy.Proxy) { return func(p *proxy.Proxy) { p.Delay(d) } }

// during disturbs proxies at the begin of a fault, and again at its end.
func during(of lines, begin, end func(*proxy.Proxy)) do {
	return func(ctx context.Context, t Trouble) error {
		for _, p := range of(t) {
			begin(p)
			defer end(p)
		}
		pause.For(ctx, t.lasts)
		return nil
	}
}

func signalling(sig syscall.Signal) do {
	return func(_ context.Context, t Trouble) error { return t.seat.Signal(sig) }
}

func freeze(ctx context.Context, t Trouble) error {
	if err := t.seat.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	pause.For(ctx, t.lasts)
	return t.seat.Signal(syscall.SIGCONT)
}

// paused freezes a server for a while.
func paused(ctx context.Context, t Trouble, server rig.Server) error {
	if err := server.Pause(); err != nil {
		return err
	}
	pause.For(ctx, t.lasts)
	return server.Resume()
}

func killStore(ctx context.Context, t Trouble) error {
	server := t.Store.Server()
	err := server.Kill()
	if t.Store.Database == nil {
		t.forgot()
	}
	if err != nil {
		return err
	}
	pause.For(ctx, t.lasts)
	return server.Start(ctx)
}

func (in *Injector) forgot() { in.Log.Write(audit.Event{Kind: audit.Forgot}) }
