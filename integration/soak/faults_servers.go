package main

import (
	"context"
	"errors"
	"time"

	"github.com/strikesmq/strikes/integration/soak/audit"
)

func (f *faults) killBroker(ctx context.Context, _ *seat) error {
	if err := f.broker.killed(ctx); err != nil {
		return err
	}
	pause(ctx, f.upTo(2*time.Second))
	return f.broker.restarted(ctx)
}

func (f *faults) restartBroker(ctx context.Context, _ *seat) error {
	return errors.Join(f.broker.private.Stop(ctx), f.broker.private.Start(ctx))
}

func (f *faults) pauseBroker(ctx context.Context, _ *seat) error {
	if err := f.broker.private.Pause(); err != nil {
		return err
	}
	pause(ctx, f.upTo(4*heartbeat))
	return f.broker.private.Resume()
}

func (f *faults) pauseStore(ctx context.Context, _ *seat) error {
	if err := f.store.Pause(); err != nil {
		return err
	}
	pause(ctx, f.upTo(8*time.Second))
	return f.store.Resume()
}

func (f *faults) killStore(ctx context.Context, _ *seat) error {
	err := f.store.Kill()
	f.forgot()
	if err != nil {
		return err
	}
	pause(ctx, f.upTo(8*time.Second))
	return f.store.Start(ctx)
}

func (f *faults) flushStore(ctx context.Context, _ *seat) error {
	err := f.store.flush(ctx)
	f.forgot()
	return err
}

func (f *faults) forgot() { f.log.Write(audit.Event{Kind: audit.Forgot}) }
