package main

import (
	"context"
	"io"
	"os"
	"time"

	urfave "github.com/urfave/cli/v3"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/consumer"
)

// The file descriptor of the ledger in a consumer of the demo: the first of exec.Cmd.ExtraFiles.
const ledgerFD = 3

// demoWorkerCommand is one consumer process of the demo. It says its decisions on stdout and lives no longer than the other
// end of its stdin.
func (a *app) demoWorkerCommand() *urfave.Command {
	return &urfave.Command{
		Name:   "demo-worker",
		Hidden: true,
		Flags:  []urfave.Flag{amqpFlag(), redisFlag(), prefixFlag()},
		Action: a.do(a.demoWorker),
	}
}

func (a *app) demoWorker(ctx context.Context, c *urfave.Command) error {
	args, err := positional(c, "QUEUE")
	if err != nil {
		return err
	}
	go func() { // as long as the process lives; nothing else would end it if the demo was killed
		_, _ = io.Copy(io.Discard, a.In)
		os.Exit(cli.ExitFailed)
	}()
	b, err := brokerOf(c)
	if err != nil {
		return err
	}
	store, err := storeOf(ctx, c)
	if err != nil {
		return err
	}
	defer store.Close()
	s := shop{ledger: &ledger{os.NewFile(ledgerFD, "ledger")}, die: dieNow}
	worker := consumer.Consumer{
		Queue: args[0], Handler: s.handle, Counter: store, MaxRetries: demoRetries, Prefetch: 4,
		Observer: &lines{to: a.Out, all: true, json: true}, DrainTimeout: 2 * time.Second,
	}
	return worker.Run(ctx, b.Dial)
}
