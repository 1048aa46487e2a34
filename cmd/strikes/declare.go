package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/spf13/cobra"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/connect"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/doctor"
	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/internal/inspect"
	"github.com/strikesmq/strikes/internal/pause"
	"github.com/strikesmq/strikes/internal/printable"
	"github.com/strikesmq/strikes/internal/shell"
	"github.com/strikesmq/strikes/ops"
	"github.com/strikesmq/strikes/topology"
)

type declare struct {
	cli.Streams
	connect.Flags
	note

	set         topology.Spec // by the flags
	repartition bool
}

func (a *app) declareCommand() *cobra.Command {
	d := declare{Streams: a.Streams, set: topology.Spec{Type: topology.Quorum}}
	cmd := &cobra.Command{
		Use: "declare QUEUE", Short: "declare a queue and where its dead letters go",
		Example: `  strikes declare orders
  strikes declare orders --single-active-consumer --delivery-limit 2000
  strikes declare orders --partitions 8
  strikes declare orders --partitions 12 --repartition`,
		Long: `Declares QUEUE, the fanout exchange QUEUE.dlx and the quorum queue QUEUE.dlq
bound to it, all durable. It may be repeated. A queue or exchange that exists
with other properties is left as it is and named (exit 2). Bind QUEUE to
exchanges of your own with a client or rabbitmqadmin.

--partitions N makes a queue that consumers share by routing key, each key in
its order: the queues QUEUE.0 to QUEUE.N-1, and the exchange QUEUE for
publishers. --repartition changes N: it refuses unless every partition is empty,
nothing consumes and no lane is blocked. Stop the publishers first: until it is
done, their messages are returned. The audit log keeps the change with --why and
--by.

--delay-queues also declares what long delays need. The queues strikes.delay.1m,
10m, 1h, 6h and 24h serve the whole virtual host. QUEUE is bound to the exchange
strikes.delay, over which messages come back; those of a queue that is gone go
to strikes.delay.lost. From their next session on, all unordered consumers of
the virtual host move delays over one minute, unless --delay-above is negative.`,
		RunE: func(cmd *cobra.Command, args []string) error { return d.run(cmd.Context(), args[0]) },
	}
	flags := cmd.Flags()
	d.AddBroker(cmd)
	cli.OneOf(cmd, &d.set.Type, "type", "declare QUEUE with this `TYPE`, quorum or classic; QUEUE.dlq is a quorum queue "+
		"either way", topology.Quorum, topology.Classic)
	flags.BoolVar(&d.set.SingleActiveConsumer, "single-active-consumer", false,
		"only one consumer at a time gets messages, as strict order requires")
	flags.IntVar(&d.set.DeliveryLimit, "delivery-limit", 0, "the broker dead-letters a message of a quorum queue that "+
		"was returned `N` times; set it well above the retries of the consumers")
	flags.BoolVar(&d.set.DelayQueues, "delay-queues", false, "also declare the queues in which messages of QUEUE wait "+
		"for long delays")
	flags.IntVar(&d.set.Partitions, "partitions", 0, "share QUEUE by routing key among `N` single-active-consumer "+
		"queues, 2 to 256; 0: one queue")
	flags.BoolVar(&d.repartition, "repartition", false, "change the number of partitions of QUEUE to that of --partitions")
	d.AddStore(cmd)
	d.AddManagement(cmd)
	d.addAudit(cmd)
	cli.FromEnv(flags, "type", "delivery-limit")
	cli.DefaultText(flags, "delivery-limit", "1000")
	return cmd
}

func (d *declare) run(ctx context.Context, queue string) error {
	spec := d.set
	spec.Queue, spec.DeadLetterExchange, spec.DeadLetterQueue = queue, queue+".dlx", queue+".dlq"
	if spec.DelayQueues && spec.SingleActiveConsumer {
		return cli.Misusef("--delay-queues cannot be used with --single-active-consumer: a delayed message would be " +
			"overtaken")
	}
	if err := spec.Validate(); err != nil {
		return cli.Misuse(err)
	}
	switch {
	case d.repartition && spec.Partitions == 0:
		return cli.Misusef("--repartition needs --partitions N")
	case d.why != "" && !d.repartition:
		return cli.Misusef("--why needs --repartition: the audit log keeps no other declare")
	}
	b, err := d.Broker()
	if err != nil {
		return err
	}
	err = b.With(ctx, func(conn *amqp.Connection) error {
		if d.repartition {
			return d.change(ctx, b, conn, spec)
		}
		return topology.Declare(ctx, conn, spec)
	})
	if err != nil {
		if strings.Contains(err.Error(), fmt.Sprintf("queue %q: it exists with ", queue)) {
			err = fmt.Errorf("%w\nto keep the queue, and change the settings that a policy can change, run: strikes doctor "+
				"--fix %s", err, shell.Operands(queue))
		}
		return err
	}
	return declared(d.Out, spec)
}

// change changes the number of partitions, unless that would lose messages or the order of a lane.
func (d *declare) change(ctx context.Context, b *connect.Broker, conn *amqp.Connection, spec topology.Spec) error {
	store, err := d.Store(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	n, err := broker.PartitionsOf(ctx, conn, spec.Queue)
	if n == 0 && err == nil {
		err = d.RefuseMissing(ctx, spec.Queue)
	}
	if err != nil {
		return err
	}
	partitions := broker.Partitions(spec.Queue, n)
	_, blocked, err := ops.Lanes(ctx, store.Admin(), b.VHost, partitions, 0)
	if err != nil {
		return err
	}
	if blocked > 0 {
		return cli.Misusef("queue %s has %s, whose messages would come into other partitions; strikes lane list %s shows "+
			"them", printable.Name(spec.Queue), printable.Plural(blocked, "blocked lane"), shell.Operands(spec.Queue))
	}
	state, err := store.Admin().State(ctx, b.VHost, spec.Queue)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(state.Consumers, func(c counter.ConsumerState) bool { return c.Paused }) {
		return cli.Misusef("queue %s is paused, and its processes would go on with the former number: stop them first, or, "+
			"if they were killed, wait a minute", printable.Name(spec.Queue))
	}
	gone, need := partitions[min(spec.Partitions, n):], inspect.Need{}
	if len(gone) > 0 {
		if need, err = b.Management(ctx, conn, need); err != nil {
			err = fmt.Errorf("partitions of queue %s would be deleted, and only the management API (--management-url) shows "+
				"whether they have rejected messages: %w", printable.Name(spec.Queue), err)
			if errors.Is(err, broker.ErrDenied) {
				return err
			}
			return cli.Misuse(err)
		}
		if spec.Type != topology.Classic {
			fmt.Fprintf(d.Err, "waiting for %v, because the management API shows rejected messages late\n", ops.Arriving)
			pause.For(ctx, ops.Arriving)
		}
	}
	for _, need.Queue = range gone {
		load, err := doctor.Measure(ctx, conn, need)
		if load.DeadLettering > 0 {
			return cli.Misusef("partition %s would be deleted, and %s of it wait for the dead-letter route; strikes doctor %s "+
				"says why", printable.Name(need.Queue), printable.Plural(load.DeadLettering, "rejected message"),
				shell.Operands(spec.Queue))
		}
		if err != nil && !errors.Is(err, broker.ErrNotFound) {
			return withoutAPI(b, err)
		}
	}
	if err = topology.Repartition(ctx, conn, spec); errors.Is(err, topology.ErrRefused) {
		return err
	}
	log := &ops.Queue{Store: store.Admin(), VHost: b.VHost, Name: spec.Queue, Warn: unaudited(d.Err)}
	note := d.given()
	log.Audit(ctx, counter.AuditEntry{
		Actor: note.By, Verb: ops.VerbRepartition, Subject: fmt.Sprintf("%d to %d", n, spec.Partitions), Reason: note.Why,
	}, err)
	return err
}

// declared prints the queues, and the exchanges that lead to and from them.
func declared(w io.Writer, s topology.Spec) error {
	if s.Partitions > 0 {
		fmt.Fprintf(w, "%s queues %s to %d, of exchange %s by routing key\n", s.Type,
			printable.Name(broker.Partition(s.Queue, 0)), s.Partitions-1, printable.Name(s.Queue))
	} else {
		fmt.Fprintf(w, "%s queue %s\n", s.Type, printable.Name(s.Queue))
	}
	if s.DelayQueues {
		fmt.Fprintln(w, "long delays in the queues strikes.delay.1m, 10m, 1h, 6h and 24h")
	}
	_, err := fmt.Fprintf(w, "dead letters to exchange %s, queue %s\n", printable.Name(s.DeadLetterExchange),
		printable.Name(s.DeadLetterQueue))
	return err
}
