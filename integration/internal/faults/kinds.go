package faults

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/strikesmq/strikes/integration/internal/cluster"
	"github.com/strikesmq/strikes/integration/internal/fleet"
	"github.com/strikesmq/strikes/integration/internal/rig"
	"github.com/strikesmq/strikes/internal/audit"
	"github.com/strikesmq/strikes/internal/pause"
	"github.com/strikesmq/strikes/internal/proxy"
	"github.com/strikesmq/strikes/internal/servers"
)

// do is the function of a kind in these tables.
type do = func(in *Injector, ctx context.Context, s *fleet.Seat, lasts time.Duration) error

// anywhere are the kinds that any broker and store can stand.
var anywhere = []Kind{
	{Name: "sigkill", needs: "seats", Do: signalling(syscall.SIGKILL)},
	{Name: "sigterm", needs: "seats", Do: signalling(syscall.SIGTERM)},
	{Name: "zombie", needs: "seats", least: 3*Heartbeat + time.Second/2, most: 3*Heartbeat + 2*time.Second, Do: freeze},
	{Name: "blink", needs: "seats", most: time.Second, Do: freeze},
	{Name: "broker-cut", Do: cutting(brokerOf)},
	{Name: "broker-half-open", most: 3 * Heartbeat,
		Do: func(_ *Injector, ctx context.Context, s *fleet.Seat, lasts time.Duration) error {
			s.Broker.Halve()
			pause.For(ctx, lasts)
			s.Broker.Cut()
			return nil
		}},
	{Name: "broker-latency", most: 3 * time.Second, Do: slowing(brokerOf, 300*time.Millisecond)},
	{Name: "broker-mute", most: 3 * time.Second, Do: silencing(brokerOf)},
	{Name: "store-pause", needs: "store", most: 8 * time.Second, Do: pauseStore},
	{Name: "store-kill", needs: "store", most: 8 * time.Second, Do: killStore},
	{Name: "store-flush", needs: "store",
		Do: func(in *Injector, ctx context.Context, _ *fleet.Seat, _ time.Duration) error {
			err := in.Store.Flush(ctx)
			in.forgot()
			return err
		}},
	{Name: "confirms-cut", needs: "producer", Do: cutting(producerOf)},
	{Name: "confirms-mute", needs: "producer", most: 3 * time.Second, Do: silencing(producerOf)},
}

// ofOneStore are for a store that is reached by one address.
var ofOneStore = []Kind{
	{Name: "store-cut", Do: cutting(storeOf)},
	{Name: "store-latency", most: 3 * time.Second, Do: slowing(storeOf, 400*time.Millisecond)},
	{Name: "store-mute", most: 3 * time.Second, Do: silencing(storeOf)},
}

// StoreTerminate ends the sessions in a database, whatever they do.
var StoreTerminate = Kind{Name: "store-terminate", needs: "store",
	Do: func(in *Injector, ctx context.Context, _ *fleet.Seat, _ time.Duration) error {
		return in.Store.Terminate(ctx)
	}}

// StoresMute loses every reply of the store to all processes for a while, and then the connections.
var StoresMute = Kind{Name: "stores-mute", needs: "store", most: 3 * time.Second,
	Do: silencing(func(in *Injector, _ *fleet.Seat) (all []*proxy.Proxy) {
		for _, s := range in.Fleet.Seats {
			all = append(all, s.Store)
		}
		return all
	})}

// DependencyAway cuts the dependency off. No handler that calls it can succeed meanwhile.
var DependencyAway = Kind{Name: audit.DependencyAway, needs: "dependency",
	Do: func(in *Injector, ctx context.Context, _ *fleet.Seat, lasts time.Duration) error {
		in.Dependency.Away(true)
		pause.For(ctx, lasts)
		in.Dependency.Away(false)
		return nil
	}}

// BrokerKill kills a node of the broker and starts it again.
var BrokerKill = Kind{Name: audit.BrokerKill, needs: "broker", most: 2 * time.Second, Do: ofNode(
	func(in *Injector, ctx context.Context, n *rig.Node, lasts time.Duration) error {
		if err := n.Kill(ctx); err != nil {
			return err
		}
		pause.For(ctx, lasts)
		return n.Start(ctx)
	})}

// ofPrivateNodes are for nodes that are this program's own.
var ofPrivateNodes = []Kind{
	{Name: audit.BrokerRestart, needs: "broker", Do: ofNode(
		func(_ *Injector, ctx context.Context, n *rig.Node, _ time.Duration) error { return n.Restart(ctx) })},
	{Name: "broker-pause", needs: "broker", most: 4 * Heartbeat, Do: ofNode(
		func(_ *Injector, ctx context.Context, n *rig.Node, lasts time.Duration) error {
			if err := n.Private.Pause(); err != nil {
				return err
			}
			pause.For(ctx, lasts)
			return n.Private.Resume()
		})},
}

var ofCluster = []Kind{
	{Name: "partition", needs: "broker", most: 8 * time.Second, Do: parting((*cluster.RabbitMQ).Isolate)},
	{Name: "partition-silent", needs: "broker", most: 20 * time.Second, Do: parting((*cluster.RabbitMQ).Silence)},
}

func parting(part func(*cluster.RabbitMQ, *servers.RabbitMQ)) do {
	return ofNode(func(in *Injector, ctx context.Context, n *rig.Node, lasts time.Duration) error {
		part(in.Broker.Cluster, n.Private)
		pause.For(ctx, lasts)
		in.Broker.Cluster.Heal()
		return nil
	})
}

// Possible are the kinds that a broker and its store allow. In a cluster those that it is for come more often.
func Possible(b *rig.Broker) []Kind {
	all := slices.Clone(anywhere)
	if b.CanKill() {
		all = append(all, BrokerKill)
	}
	if b.Private != nil {
		all = append(all, ofPrivateNodes...)
	}
	if b.Cluster == nil {
		return append(all, ofOneStore...)
	}
	return slices.Concat(all, []Kind{BrokerKill, BrokerKill}, ofCluster, ofCluster)
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
type lines func(in *Injector, s *fleet.Seat) []*proxy.Proxy

func brokerOf(_ *Injector, s *fleet.Seat) []*proxy.Proxy    { return []*proxy.Proxy{s.Broker} }
func storeOf(_ *Injector, s *fleet.Seat) []*proxy.Proxy     { return []*proxy.Proxy{s.Store} }
func producerOf(in *Injector, _ *fleet.Seat) []*proxy.Proxy { return []*proxy.Proxy{in.Producer} }

func cutting(of lines) do {
	return func(in *Injector, _ context.Context, s *fleet.Seat, _ time.Duration) error {
		for _, l := range of(in, s) {
			l.Cut()
		}
		return nil
	}
}

func slowing(of lines, latency time.Duration) do {
	return func(in *Injector, ctx context.Context, s *fleet.Seat, lasts time.Duration) error {
		for _, l := range of(in, s) {
			l.Delay(latency)
			defer l.Delay(0)
		}
		pause.For(ctx, lasts)
		return nil
	}
}

// silencing drops the bytes of the server, and then the connections that missed them.
func silencing(of lines) do {
	return func(in *Injector, ctx context.Context, s *fleet.Seat, lasts time.Duration) error {
		for _, l := range of(in, s) {
			l.Mute(true)
			defer l.Mute(false)
		}
		pause.For(ctx, lasts)
		return nil
	}
}

func signalling(sig syscall.Signal) do {
	return func(_ *Injector, _ context.Context, s *fleet.Seat, _ time.Duration) error { return s.Signal(sig) }
}

func freeze(_ *Injector, ctx context.Context, s *fleet.Seat, lasts time.Duration) error {
	if err := s.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	pause.For(ctx, lasts)
	return s.Signal(syscall.SIGCONT)
}

// ofNode is about any node of the broker.
func ofNode(f func(in *Injector, ctx context.Context, n *rig.Node, lasts time.Duration) error) do {
	return func(in *Injector, ctx context.Context, _ *fleet.Seat, lasts time.Duration) error {
		return f(in, ctx, in.Broker.Nodes[in.intN(len(in.Broker.Nodes))], lasts)
	}
}

// pauseStore freezes the store. A Cluster elects another master meanwhile. Writes that the frozen one took in and did
// not pass on are lost. So are those that it takes in until it learns that it is none any more.
func pauseStore(in *Injector, ctx context.Context, _ *fleet.Seat, lasts time.Duration) error {
	r, err := in.Store.Master(ctx)
	if err != nil {
		return err
	}
	if err := r.Pause(); err != nil {
		return err
	}
	in.mayForget()
	pause.For(ctx, lasts)
	if err := r.Resume(); err != nil {
		return err
	}
	in.mayForget()
	err = in.Store.Recovered(ctx)
	in.mayForget()
	return err
}

func killStore(in *Injector, ctx context.Context, _ *fleet.Seat, lasts time.Duration) error {
	r, err := in.Store.Master(ctx)
	if err != nil {
		return err
	}
	err = r.Kill()
	if in.Store.Database == nil {
		in.forgot()
	}
	if err != nil {
		return err
	}
	pause.For(ctx, lasts)
	return errors.Join(r.Start(ctx), in.Store.Recovered(ctx))
}

func (in *Injector) forgot() { in.Log.Write(audit.Event{Kind: audit.Forgot}) }

// mayForget is for faults by which a Cluster loses records, and one server loses none.
func (in *Injector) mayForget() {
	if in.Store.Cluster != nil {
		in.forgot()
	}
}
