package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/spf13/cobra"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/connect"
	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/doctor"
	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/internal/inspect"
	"github.com/strikesmq/strikes/internal/printable"
	"github.com/strikesmq/strikes/internal/setting"
	"github.com/strikesmq/strikes/internal/shell"
	"github.com/strikesmq/strikes/ops"
)

func (a *app) doctorCommand() *cobra.Command {
	c := examination{Streams: a.Streams}
	cmd := &cobra.Command{
		Use: "doctor [QUEUE…]", Short: "find what would lose or block messages, and fix it",
		Example: "  strikes doctor\n  strikes doctor orders --probe\n  strikes doctor orders --fix --dry-run",
		Long: `Examines each QUEUE, its dead-letter route, the broker and the store. It reports
each problem, its impact and its fix. It changes nothing without --fix.
docs/operations.md has a section for the code of each finding. Without a QUEUE
it examines every queue of the virtual host, except exclusive queues, streams,
and queues that only take the dead letters of others.

It asks the management API for facts that AMQP does not report. Without the API
it names the facts that it could not see.

With --fix it shows the steps that fix each QUEUE, asks, takes them, and
examines the queue again. A step declares a missing exchange, queue or binding,
or sets a policy for one queue. The audit log of the queue keeps who did it, and
--why.

With --probe it also proves, for each QUEUE, that a rejected message arrives, if
the dead-letter queue is empty and has no consumer. It uses a scratch queue. For
a queue with partitions, name a partition: it does not probe all of them.

It examines everything before it exits: 5 if anything is wrong; else 69 if the
store is out of reach, 4 if permissions are missing, 2 if a QUEUE or the store's
database does not exist, 0 if there are only warnings. A broker that cannot be
asked ends it immediately, with 69 or 4.`,
		RunE: func(cmd *cobra.Command, args []string) error { return c.run(cmd.Context(), args) },
	}
	c.addTo(cmd)
	return cmd
}

// examination is one run of the doctor: the settings of the consumers, and the URLs of the servers.
type examination struct {
	cli.Streams
	connect.Flags

	set         inspect.Need // by the flags
	probe, json bool

	fixes, dryRun, yes bool
	note               // of the fix
}

func (c *examination) addTo(cmd *cobra.Command) {
	f := cmd.Flags()
	c.AddBroker(cmd)
	c.AddStore(cmd)
	c.AddManagement(cmd)
	f.IntVar(&c.set.MaxRetries, "max-retries", consumer.DefaultMaxRetries,
		"how often consumers retry: the delivery limit must allow `N` retries")
	f.BoolVar(&c.set.Ordered, "ordered", false, "messages must be handled in order")
	f.BoolVar(&c.set.AllowDrop, "allow-drop", false, "accept that dead letters are lost")
	f.BoolVar(&c.probe, "probe", false, "prove where rejected messages go, with a scratch message")
	f.BoolVar(&c.fixes, "fix", false, "show the steps that fix each QUEUE, ask, and take them")
	f.BoolVar(&c.dryRun, "dry-run", false, "with --fix: only show the steps")
	f.BoolVar(&c.yes, "yes", false, "with --fix: do not ask; required where there is no terminal to ask at")
	c.addAudit(cmd)
	cli.FromEnv(f, "max-retries", "ordered", "allow-drop")
	cli.JSON(f, &c.json, "print one JSON object a finding, and one for all that was not examined (not_examined)")
}

// run examines queues, or all of the virtual host if none is named, then the broker and the store.
func (c *examination) run(ctx context.Context, queues []string) error {
	need, err := c.need()
	if err != nil {
		return err
	}
	if c.probe && len(queues) == 0 {
		return cli.Misusef("--probe makes a scratch queue and a message; name the QUEUE that it is for")
	}
	if err := c.checkFix(len(queues)); err != nil {
		return err
	}
	b, err := c.Broker()
	if err != nil {
		return err
	}
	store, err := c.StoreUnasked()
	if err != nil {
		return err
	}
	defer store.Close()
	p := &reports{out: c.Out, json: c.json, flags: cli.Examined(c.Cmd)}
	examine := true
	err = b.With(ctx, func(conn *amqp.Connection) error {
		need, noAPI := b.Management(ctx, conn, need)
		checkup := &doctor.Checkup{Conn: conn, Need: need, Store: store.Admin(), Named: len(queues) > 0, Probe: c.probe}
		for _, queue := range queues {
			of, _, _ := broker.PartitionedBy(ctx, conn, queue)
			notePartition(c.Err, queue, of)
			if n, _ := broker.PartitionsOf(ctx, conn, queue); c.probe && n > 0 {
				fmt.Fprintf(c.Err, "queue %s has partitions, and is not probed; strikes doctor --probe %s probes one of them\n",
					printable.Name(queue), shell.Operands(broker.Partition(queue, 0)))
			}
		}
		if len(queues) == 0 {
			if queues, err = c.list(ctx, conn, need, noAPI); err != nil {
				return withoutAPI(b, err)
			}
		} else if noAPI != nil {
			fmt.Fprintf(c.Err, withoutManagement, printable.Text(noAPI.Error(), ""))
		}
		if c.fixes {
			if examine, err = c.fix(ctx, checkup, queues); err != nil || !examine {
				return err
			}
		}
		if err := checkup.Queues(ctx, queues, p.print); err != nil {
			return err
		}
		broker := checkup.Broker(ctx)
		return cmp.Or(p.print(broker), broker.Err)
	})
	if err != nil || !examine {
		return err
	}
	if err := c.examineStore(ctx, store, p); err != nil {
		return err
	}
	return p.verdict()
}

func (c *examination) checkFix(queues int) error {
	switch {
	case c.fixes && queues == 0:
		return cli.Misusef("--fix changes the broker; name the QUEUE that it is for")
	case c.fixes && c.probe:
		return cli.Misusef("--fix and --probe do not go together: fix the queue, then probe it")
	case c.fixes && c.json:
		return cli.Misusef("--fix and --json do not go together: fix the queue, then examine it with --json")
	case !c.fixes && (c.dryRun || c.yes || c.why != ""):
		return cli.Misusef("--dry-run, --yes and --why are for --fix")
	}
	return nil
}

func (c *examination) need() (inspect.Need, error) {
	need := c.set
	if need.MaxRetries < 0 || need.MaxRetries > counter.MaxOverride {
		return need, cli.Refused("max-retries", need.MaxRetries, fmt.Sprintf("0 to %d", counter.MaxOverride))
	}
	return need, nil
}

func (c *examination) list(ctx context.Context, conn *amqp.Connection, need inspect.Need, noAPI error) ([]string,
	error) {
	if noAPI != nil {
		return nil, fmt.Errorf("%w: %w", ops.ErrNoList, noAPI)
	}
	found, err := doctor.List(ctx, conn, need)
	switch {
	case err != nil:
		return nil, err
	case len(found.Queues) == 0:
		return nil, cli.WithCode(fmt.Errorf("no queue in virtual host %q", conn.Config.Vhost), cli.ExitNothing)
	case len(found.PassedOver) > 0:
		fmt.Fprintf(c.Err, "strikes: %s not examined: exclusive queues, streams, delay queues and dead-letter queues\n",
			printable.Plural(len(found.PassedOver), "queue"))
	}
	return found.Queues, nil
}

// withoutAPI returns the error of a command that needs the management API, with its exit code. An error of the API gets
// the source of its URL.
func withoutAPI(b *connect.Broker, err error) error {
	code := cli.ExitCode(err)
	switch {
	case errors.Is(err, broker.ErrDenied), errors.Is(err, broker.ErrURL):
	case errors.Is(err, ops.ErrNoList):
		code = cli.ExitMisuse
	case code == cli.ExitFailed:
		code = cli.ExitUnreachable
	default: // it has its code already
		return err
	}
	return cli.WithCode(fmt.Errorf("%w; %s", err, b.ManagementSource()), code)
}

// examineStore examines the store. A store that does not reply is a finding like any other, because the rest was
// examined.
func (c *examination) examineStore(ctx context.Context, store *counter.Counter, p *reports) error {
	check, cancel := context.WithTimeout(ctx, connect.CheckTimeout)
	defer cancel()
	found, err := store.Admin().Examine(check)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var trouble []inspect.Finding
	if err != nil {
		trouble = append(trouble, storeTrouble(c.ExplainStore(ctx, err)))
	}
	return p.print(doctor.StoreReport(setting.RedactURL(c.StoreURL), found, trouble...))
}

func storeTrouble(err error) inspect.Finding {
	code := inspect.CodeNoStore
	var store *counter.StoreError
	switch {
	case errors.As(err, &store) && store.Fault == counter.FaultNotSetUp:
		code = inspect.CodeNoDatabase
	case store != nil && store.Fault == counter.FaultDenied:
		code = inspect.CodeStoreDenied
	case cli.ExitCode(err) == cli.ExitMisuse:
		code = inspect.CodeNotStore
	}
	return inspect.Say(code, inspect.Vars{"reason": cli.Plain(err)})
}
