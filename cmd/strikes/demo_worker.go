package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
	demoWorkerEnv  = "STRIKES_DEMO_WORKER" // the configuration of a consumer process in JSON
	ledgerFD       = 3                     // the ledger in such a process: the first of exec.Cmd.ExtraFiles
)

// demoWorker tells a consumer process where its queue is.
type demoWorker struct {
	AMQPURL  string `json:"amqp_url"`
	StoreURL string `json:"store_url"`
	Queue    string `json:"queue"`
}

// demoWorkerCommand is one consumer process of the demo. It prints its decisions, and ends when its stdin does.
func (a *app) demoWorkerCommand() *cobra.Command {
	return &cobra.Command{
		Use: demoWorkerName, Short: "consume for the demo", Args: cobra.ExactArgs(0), Hidden: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var w demoWorker
			if err := json.Unmarshal([]byte(os.Getenv(demoWorkerEnv)), &w); err != nil {
				return fmt.Errorf("%s is started by strikes demo alone: %w", demoWorkerName, err)
			}
			go func() { // nothing else ends this process if the demo is killed
				_, _ = io.Copy(io.Discard, a.In)
				os.Exit(1)
			}()
			return w.run(cmd.Context(), a.Out)
		},
	}
}

func (w demoWorker) run(ctx context.Context, out io.Writer) error {
	b, err := connect.NewBroker(w.AMQPURL, "strikes "+demoWorkerName, "--amqp-url")
	if err != nil {
		return err
	}
	store, err := connect.OpenStore(ctx, w.StoreURL, w.Queue, "--store-url")
	if err != nil {
		return err
	}
	defer store.Close()
	c := consumer.Consumer{
		Queue: w.Queue, Handler: demoHandler(&ledger{os.NewFile(ledgerFD, "ledger")}), Counter: store,
		MaxRetries: demoRetries, Observer: &lines{to: out, all: true, json: true},
		Prefetch:     1, // so a process that dies has settled every earlier order, and none of those is handled again
		DrainTimeout: 2 * time.Second,
	}
	return c.Run(ctx, b.Dial)
}

// demoEvent is news of one consumer process.
type demoEvent struct {
	news    string
	settled string // an order that it has handled or dead-lettered; empty: none
}

// watch runs two consumers until they report every order as settled, and tells the story. The verdict does not rely on
// their reports.
func (d *demo) watch(ctx context.Context) error {
	spec, err := json.Marshal(demoWorker{AMQPURL: d.amqpURL, StoreURL: d.storeURL, Queue: d.queue})
	if err != nil {
		return err
	}
	running, stop := context.WithTimeout(ctx, time.Minute)
	defer stop()
	// in the environment: every user can read a command line
	env := append(os.Environ(), demoWorkerEnv+"="+string(spec))
	events := make(chan demoEvent, 100)
	var members sync.WaitGroup
	for number := range 2 {
		members.Go(func() { // starts the consumer again when it ends
			who := fmt.Sprintf("consumer %d  ", number+1)
			for range demoRestarts + 1 {
				err := d.consume(running, env, who, events)
				if running.Err() != nil {
					return
				}
				if err != nil {
					events <- demoEvent{news: who + "died (" + printable.Text(err.Error(), "") + "); its messages return to the " +
						"queue, and it is started again"}
				}
			}
		})
	}
	go func() { members.Wait(); close(events) }()
	settled := map[string]bool{}
	for e := range events {
		d.say("%s", e.news)
		if e.settled != "" {
			settled[e.settled] = true
		}
		if len(settled) == len(d.orders) {
			stop()
		}
	}
	return ctx.Err()
}

// consume runs one consumer, a process of this binary, to its end. When ctx is done the process is asked to stop, and
// killed if it does not.
func (d *demo) consume(ctx context.Context, env []string, who string, events chan<- demoEvent) error {
	path, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, path, demoWorkerName) //nolint:gosec // itself
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
	events <- demoEvent{news: fmt.Sprintf("%sstarted, pid %d", who, cmd.Process.Pid)}
	scanner := bufio.NewScanner(stdout)
	for scanner.Scan() {
		var one decision
		if err := json.Unmarshal(scanner.Bytes(), &one); err != nil {
			return errors.Join(fmt.Errorf("reading a decision: %.80q: %w", scanner.Text(), err), cmd.Cancel(), cmd.Wait())
		}
		e := demoEvent{news: who + one.String()}
		if one.Decision == string(consumer.OutcomeAck) || one.Decision == string(consumer.OutcomeDeadLetter) {
			e.settled = one.ID
		}
		events <- e
	}
	return errors.Join(scanner.Err(), cmd.Wait())
}
