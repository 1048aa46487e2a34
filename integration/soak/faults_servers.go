package main

import (
	"context"
	"errors"
	"time"

	"github.com/strikesmq/strikes/integration/internal/node"
	"github.com/strikesmq/strikes/internal/audit"
	"github.com/strikesmq/strikes/internal/pause"
)

// anyNode is the node of the broker that a fault is about.
func (f *faults) anyNode() *node.Node { return f.broker.nodes[f.intN(len(f.broker.nodes))] }

func (f *faults) killBroker(ctx context.Context, _ *seat) error {
	n := f.anyNode()
	if err := n.Kill(ctx); err != nil {
		return err
	}
	pause.For(ctx, f.upTo(2*time.Second))
	return n.Start(ctx)
}

func (f *faults) restartBroker(ctx context.Context, _ *seat) error {
	n := f.anyNode()
	return n.Restart(ctx)
}

func (f *faults) pauseBroker(ctx context.Context, _ *seat) error {
	n := f.anyNode()
	if err := n.Private.Pause(); err != nil {
		return err
	}
	pause.For(ctx, f.upTo(4*heartbeat))
	return n.Private.Resume()
}

func (f *faults) isolateNode(ctx context.Context, _ *seat) error {
	f.broker.cluster.Isolate(f.anyNode().Private)
	pause.For(ctx, f.upTo(8*time.Second))
	f.broker.cluster.Heal()
	return nil
}

func (f *faults) silenceNode(ctx context.Context, _ *seat) error {
	f.broker.cluster.Silence(f.anyNode().Private)
	pause.For(ctx, f.upTo(20*time.Second))
	f.broker.cluster.Heal()
	return nil
}

// pauseStore freezes the store. A Cluster elects another master meanwhile, and what the frozen one took in and did not
// pass on is lost; so is what it takes in until it learns that it is none any more.
func (f *faults) pauseStore(ctx context.Context, _ *seat) error {
	r, err := f.store.master(ctx)
	if err != nil {
		return err
	}
	if err := r.Pause(); err != nil {
		return err
	}
	f.mayForget()
	pause.For(ctx, f.upTo(8*time.Second))
	if err := r.Resume(); err != nil {
		return err
	}
	f.mayForget()
	err = f.store.recovered(ctx)
	f.mayForget()
	return err
}

func (f *faults) killStore(ctx context.Context, _ *seat) error {
	r, err := f.store.master(ctx)
	if err != nil {
		return err
	}
	err = r.Kill()
	f.forgot()
	if err != nil {
		return err
	}
	pause.For(ctx, f.upTo(8*time.Second))
	return errors.Join(r.Start(ctx), f.store.recovered(ctx))
}

func (f *faults) flushStore(ctx context.Context, _ *seat) error {
	err := f.store.flush(ctx)
	f.forgot()
	return err
}

func (f *faults) forgot() { f.log.Write(audit.Event{Kind: audit.Forgot}) }

// mayForget is for what costs a Cluster records, and one server none.
func (f *faults) mayForget() {
	if f.store.cluster != nil {
		f.forgot()
	}
}
