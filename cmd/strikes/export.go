package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/connect"
	"github.com/strikesmq/strikes/cmd/strikes/internal/metrics"
	"github.com/strikesmq/strikes/cmd/strikes/internal/web"
	"github.com/strikesmq/strikes/internal/status"
)

// exportKeep is how long figures are given out before broker and store are asked again.
const exportKeep = 5 * time.Second

// exportOptions are the flags of export.
type exportOptions struct {
	connect.Flags

	listen string
	queues []string
}

func (a *app) exportCommand() *cobra.Command {
	var o exportOptions
	cmd := cli.New("export", "serve the figures of all queues to Prometheus", `
export serves at /metrics what only the store knows, for consumers in any language: which queues are blocked and for how long, how many
messages are retrying and dead, which dead letters are unaccounted for, and which queues are paused. It serves them for the virtual host of
the AMQP URL. docs/telemetry.md lists the metrics.

Broker and store are asked once in 5 s at most, however often /metrics is scraped. One that does not answer is a metric (strikes_broker_up,
strikes_store_up), and export goes on. Only the management API can list the queues; without it, name them with --queue.`[1:],
		func(ctx context.Context, _ []string) error { return a.export(ctx, o) })
	f := cmd.Flags()
	o.AddBroker(cmd)
	o.AddStore(cmd)
	o.AddManagement(cmd, "which lists the queues")
	f.StringVar(&o.listen, "listen", "127.0.0.1:9464", "serve at this `ADDRESS`; :9464 is all addresses of the machine")
	f.StringArrayVar(&o.queues, "queue", nil, "export this `QUEUE` (repeatable); none: all")
	return cmd
}

func (a *app) export(ctx context.Context, o exportOptions) (err error) {
	q, err := newQueues(o.Flags)
	if err != nil {
		return err
	}
	q.Names = o.queues
	store, err := o.StoreUnasked()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	q.Store = store.Admin()
	cache := &status.Cache{Queues: q, Keep: exportKeep}
	defer cache.Close()
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", metrics.Handler(cache))
	listener, err := web.Listen(ctx, "listen", o.listen)
	if err != nil {
		return err
	}
	fmt.Fprintf(a.Err, "strikes: listening at http://%s\n", listener.Addr())
	return web.Serve(ctx, listener, web.Brief(mux))
}
