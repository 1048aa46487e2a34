package main

import (
	"context"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/connect"
	"github.com/strikesmq/strikes/consumer"
)

// The file descriptor of the ledger in a consumer of the demo: the first of exec.Cmd.ExtraFiles.
const ledgerFD = 3

// demoWorkerCommand is one consumer process of the demo. It says its decisions on stdout and lives no longer than the other
// end of its stdin.
func (a *app) demoWorkerCommand() *cobra.Command {
	var o connect.Flags
	cmd := cli.New("demo-worker QUEUE", "consume for the demo", "", func(ctx context.Context, args []string) error { return a.demoWorker(ctx, o, args[0]) })
	cmd.Hidden = true
	o.AddBroker(cmd)
	o.AddStore(cmd)
	return cmd
}

func (a *app) demoWorker(ctx context.Context, o connect.Flags, queue string) error {
	go func() { // as long as the process lives; nothing else would end it if the demo was killed
		_, _ = io.Copy(io.Discard, a.In)
		os.Exit(cli.ExitFailed)
	}()
	b, err := o.Broker()
	if err != nil {
		return err
	}
	store, err := o.Store(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	s := shop{ledger: &ledger{os.NewFile(ledgerFD, "ledger")}, die: dieNow}
	worker := consumer.Consumer{
		Queue: queue, Handler: s.handle, Counter: store, MaxRetries: demoRetries, Prefetch: 4,
		Observer: &lines{to: a.Out, all: true, json: true}, DrainTimeout: 2 * time.Second,
	}
	return worker.Run(ctx, b.Dial)
}
