package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/cmd/strikes/internal/connect"
	"github.com/strikesmq/strikes/consumer"
)

// Command is the hidden command of the binary that runs Work.
const Command = "demo-worker"

// workerEnv tells a consumer process in JSON what to do.
const workerEnv = "STRIKES_DEMO_WORKER"

// ledgerFD is the file descriptor of the ledger in a consumer process: the first of exec.Cmd.ExtraFiles.
const ledgerFD = 3

type workerSpec struct {
	AMQPURL  string `json:"amqp_url"`
	RedisURL string `json:"redis_url"`
	Prefix   string `json:"prefix"`
	Queue    string `json:"queue"`
}

// report is what a consumer process writes of an event, one JSON object on a line.
type report struct {
	Decision    consumer.Outcome
	ID          string
	Attempt, Of int
	Crashes     int
	Redelivered bool
	Wait        time.Duration
	Error       string
}

// Work is one consumer process of a demo. It writes its reports to out, and ends the process when in ends.
func Work(ctx context.Context, in io.Reader, out io.Writer) error {
	var spec workerSpec
	if err := json.Unmarshal([]byte(os.Getenv(workerEnv)), &spec); err != nil {
		return fmt.Errorf("%s is started by strikes demo alone: %w", Command, err)
	}
	go func() { // nothing else ends this process if the demo is killed
		_, _ = io.Copy(io.Discard, in)
		os.Exit(1)
	}()
	b, err := connect.NewBroker(spec.AMQPURL, "strikes "+Command)
	if err != nil {
		return err
	}
	store, err := connect.OpenStore(ctx, spec.RedisURL, spec.Prefix)
	if err != nil {
		return err
	}
	defer store.Close()
	h := handler{ledger: &ledger{os.NewFile(ledgerFD, "ledger")}, die: die}
	worker := consumer.Consumer{
		Queue: spec.Queue, Handler: h.handle, Counter: store, MaxRetries: retries, Prefetch: 4,
		Observer: &reporter{out: json.NewEncoder(out)}, DrainTimeout: 2 * time.Second,
	}
	return worker.Run(ctx, b.Dial)
}

type reporter struct {
	mu  sync.Mutex
	out *json.Encoder
}

// Observe is called by many goroutines.
func (r *reporter) Observe(_ context.Context, e consumer.Event) {
	line := report{Decision: e.Outcome, ID: e.ID, Attempt: e.Attempt, Of: e.Limit, Crashes: e.Crashes,
		Redelivered: e.Redelivered, Wait: e.Wait}
	if e.Err != nil {
		line.Error = e.Err.Error()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	_ = r.out.Encode(line) //nolint:musttag // read by this package; without its reader this process ends
}

// handler handles orders, and enters each attempt in the ledger before anything else happens.
type handler struct {
	ledger *ledger
	die    func()
}

// duration is how long an order takes. It also lets the settlements of earlier orders reach the broker before a process
// dies, so that few of these are handled again.
const duration = 100 * time.Millisecond

func (h *handler) handle(ctx context.Context, d amqp.Delivery) error {
	var o order
	if err := json.Unmarshal(d.Body, &o); err != nil {
		return consumer.Reject(err)
	}
	n, err := h.ledger.enter(entryAttempt, o.ID)
	if err != nil {
		return err
	}
	timer := time.NewTimer(duration)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	switch {
	case o.Kind == flaky && n <= 2:
		return errors.New("the card service does not answer")
	case o.Kind == poisonous:
		return errors.New("no such product")
	case o.Kind == deadly && n <= kills:
		h.die()
	}
	_, err = h.ledger.enter(entryDone, o.ID)
	return err
}

// die ends this process as the kernel would for lack of memory.
func die() {
	if p, err := os.FindProcess(os.Getpid()); err == nil {
		_ = p.Kill()
	}
	select {} // until it has happened
}
