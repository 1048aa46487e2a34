package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/spf13/cobra"

	"github.com/strikesmq/strikes/cmd/strikes/internal/connect"
	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/internal/pause"
	"github.com/strikesmq/strikes/internal/printable"
)

const (
	demoRetries = 3

	// demoKills is how many processes the deadly order kills. The first leaves no trace, as a first delivery sends the
	// store nothing. The second leaves an open attempt, which makes the order a suspect. In the third it runs isolated,
	// so that crash is counted.
	demoKills = 3

	// demoRestarts of one consumer are enough: the deadly order kills fewer, and more are a sign that nothing works.
	demoRestarts = demoKills + 2

	// demoWork is how long an order takes.
	demoWork = 100 * time.Millisecond
)

// The kinds of orders.
const (
	plain     = "plain"     // succeeds at the first attempt
	flaky     = "flaky"     // fails twice
	poisonous = "poisonous" // always fails
	deadly    = "deadly"    // kills the first processes that handle it
)

// order is one message; its ID is the MessageId.
type order struct {
	ID   string `json:"order"`
	Kind string `json:"kind"`
}

// demoOrders are twenty, three of them troublesome.
func demoOrders() []order {
	all := make([]order, 20)
	for i := range all {
		all[i] = order{ID: fmt.Sprintf("order-%02d", i+1), Kind: plain}
	}
	all[3].Kind, all[6].Kind, all[11].Kind = flaky, poisonous, deadly
	return all
}

// demoHandler handles orders, and enters each attempt in the ledger before anything else happens.
func demoHandler(l *ledger) consumer.Handler {
	return func(ctx context.Context, d amqp.Delivery) error {
		var o order
		if err := json.Unmarshal(d.Body, &o); err != nil {
			return consumer.Reject(err)
		}
		n, err := l.enter(entryAttempt, o.ID)
		if err != nil {
			return err
		}
		if !pause.For(ctx, demoWork) {
			return ctx.Err()
		}
		switch {
		case o.Kind == flaky && n <= 2:
			return errors.New("the card service does not answer")
		case o.Kind == poisonous:
			return errors.New("no such product")
		case o.Kind == deadly && n <= demoKills:
			if p, err := os.FindProcess(os.Getpid()); err == nil {
				_ = p.Kill() // as the kernel would for lack of memory
			}
			select {} // until it has happened
		}
		_, err = l.enter(entryDone, o.ID)
		return err
	}
}

const (
	demoWorkerName = "demo-worker"
	ledgerFD       = 3 // the ledger in such a process: the first of exec.Cmd.ExtraFiles
)

// demoWorkerCommand is one consumer process of the demo. It prints its decisions, and ends when no order is left, or
// when its stdin ends.
func (a *app) demoWorkerCommand() *cobra.Command {
	var servers connect.Flags
	cmd := &cobra.Command{
		Use: demoWorkerName + " QUEUE", Short: "consume for the demo", Args: cobra.ExactArgs(1), Hidden: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			go func() { // nothing else ends this process if the demo is killed
				_, _ = io.Copy(io.Discard, a.In)
				os.Exit(1)
			}()
			return a.demoWorker(cmd.Context(), &servers, args[0])
		},
	}
	servers.AddBroker(cmd)
	servers.AddStore(cmd)
	return cmd
}

func (a *app) demoWorker(ctx context.Context, servers *connect.Flags, queue string) error {
	b, err := servers.Broker()
	if err != nil {
		return err
	}
	store, err := servers.StoreForSteps(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	w := worker{
		consumer: consumer.Consumer{
			Queue: queue, Counter: store, MaxRetries: demoRetries,
			Prefetch:     1, // so a process that dies has settled every earlier order, and none of those is handled again
			DrainTimeout: 2 * time.Second,
		},
		work: work{handle: demoHandler(&ledger{os.NewFile(ledgerFD, "ledger")})},
		idle: newIdle(time.Second, nil), next: b.Dial, log: slog.New(slog.DiscardHandler),
	}
	w.consumer.Observer = observers{&lines{to: a.Out, all: true}, w.idle}
	return w.run(ctx, nil)
}

// watch runs two consumers until no order is left, and tells the story. The proof does not rely on their reports.
func (d *demo) watch(ctx context.Context) error {
	running, stop := context.WithTimeout(ctx, time.Minute)
	defer stop()
	// in the environment: every user can read a command line
	env := append(os.Environ(), "STRIKES_AMQP_URL="+d.amqpURL, "STRIKES_STORE_URL="+d.storeURL, "STRIKES_PREFIX="+d.queue)
	news := make(chan string, 100)
	var members sync.WaitGroup
	for number := range 2 {
		members.Go(func() { // starts the consumer again when it dies
			who := fmt.Sprintf("consumer %d  ", number+1)
			for range demoRestarts + 1 {
				err := d.consume(running, env, who, news)
				if err == nil || running.Err() != nil {
					return
				}
				news <- who + "died (" + printable.Text(err.Error(), "") + "); its messages return to the queue, and it is " +
					"started again"
			}
		})
	}
	go func() { members.Wait(); close(news) }()
	for line := range news {
		d.say("%s", line)
	}
	return ctx.Err()
}

// consume runs one consumer, a process of this binary, to its end. When ctx is done the process is asked to stop, and
// killed if it does not.
func (d *demo) consume(ctx context.Context, env []string, who string, news chan<- string) error {
	path, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, path, demoWorkerName, d.queue) //nolint:gosec // itself
	cmd.Args[0] = "strikes"
	cmd.Env, cmd.Stderr, cmd.ExtraFiles = env, d.Err, []*os.File{d.ledger.file}
	cmd.Cancel, cmd.WaitDelay = func() error { return cmd.Process.Signal(syscall.SIGTERM) }, 5*time.Second
	ownGroup(cmd)
	stdin, err := cmd.StdinPipe() // held open for as long as this process lives
	if err != nil {
		return err
	}
	defer stdin.Close()
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	news <- fmt.Sprintf("%sstarted, pid %d", who, cmd.Process.Pid)
	scanner := bufio.NewScanner(stdout)
	for scanner.Scan() {
		news <- who + scanner.Text()
	}
	return errors.Join(scanner.Err(), cmd.Wait())
}
