package main

import (
	"context"
	"errors"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/connect"
	"github.com/strikesmq/strikes/cmd/strikes/internal/jsonl"
	"github.com/strikesmq/strikes/cmd/strikes/internal/render"
	"github.com/strikesmq/strikes/internal/inspect"
	"github.com/strikesmq/strikes/ops"
)

// statusAll prints a summary of every queue, the worst first.
func (a *app) statusAll(ctx context.Context, o statusOptions) error {
	q, err := newQueues(o.Flags)
	switch {
	case err != nil:
		return err
	case o.deadLetterQueue != "":
		return cli.Misusef("--dead-letter-queue needs a QUEUE")
	case o.limit < 0:
		return cli.Refused("limit", o.limit, "0 or more")
	}
	store, err := o.Store(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	q.Store = store.Admin()
	defer q.Close()
	all, err := q.All(ctx)
	switch {
	case err != nil:
		return err
	case errors.Is(all.Broker, ops.ErrNoList):
		return cli.Misusef("%w; name a QUEUE, or give --management-url", all.Broker)
	case all.Failed() != nil:
		return all.Failed()
	case o.json:
		return jsonl.NewEncoder(a.Out).Encode(all)
	}
	return render.Overview(a.Out, all, o.limit)
}

// newQueues returns the queues of the broker's virtual host, without their store.
func newQueues(o connect.Flags) (*ops.Queues, error) {
	b, err := o.BrokerOfVHost()
	if err != nil {
		return nil, err
	}
	api, err := o.Management()
	if err != nil {
		return nil, err
	}
	return &ops.Queues{VHost: b.VHost, Dial: b.Dial, API: inspect.Need{Management: api}, FindAPI: b.Management}, nil
}
