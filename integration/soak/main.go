// Command soak runs consumer processes through faults and checks, from what they wrote down, that the guarantees held:
//
//	go run ./integration/soak -messages 20000 -faults 24 -type quorum
//
// It publishes messages whose handlers succeed, fail, panic, hang, or kill their process, and meanwhile kills, stops
// and freezes the processes, cuts and delays their connections, and kills, pauses and empties the servers, on a
// RabbitMQ of its own (or at -amqp) and a Redis of its own; with -cluster, on three RabbitMQ nodes and a Redis Cluster.
// Then it lets the queue drain and audits the histories.
//
// Progress goes to standard error. The last line on standard output is one JSON object with the figures and, for each
// invariant, the number of violations and an example. The exit status is 1 if there is any, or if the soak failed.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9/logging"

	"github.com/strikesmq/strikes/integration/internal/worker"
	"github.com/strikesmq/strikes/internal/audit"
)

func main() {
	logging.Disable() // of go-redis: it prints every failed dial
	worker.Main(runWorker)
	cfg, err := parseFlags(os.Args[1:])
	switch {
	case errors.Is(err, flag.ErrHelp):
		return
	case err != nil:
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	broken, err := run(ctx, cfg)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
	}
	if err != nil || broken {
		os.Exit(1)
	}
}

// run runs the soak, or only the audit, and prints the report.
func run(ctx context.Context, cfg config) (broken bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watching := make(chan struct{})
	go func() { defer close(watching); worker.EndWithParent(ctx, cancel) }()
	defer func() { cancel(); <-watching }()
	history := cfg.check
	began := time.Now()
	if history == "" {
		if history, err = newHistory(cfg.keep); err != nil {
			return false, err
		}
		if cfg.keep == "" {
			defer func() { err = errors.Join(err, os.RemoveAll(history)) }()
		}
		if err := runSoak(ctx, cfg, history); err != nil {
			return false, err
		}
	}
	events, err := audit.Read(history)
	if err != nil {
		return false, err
	}
	report := audit.Check(events)
	line, err := json.Marshal(struct {
		Seconds float64 `json:"seconds"`
		*audit.Report
	}{time.Since(began).Round(time.Second / 10).Seconds(), report})
	if err != nil {
		return false, err
	}
	_, err = fmt.Fprintln(os.Stdout, string(line))
	return len(report.Broken()) > 0, err
}

func newHistory(keep string) (string, error) {
	if keep == "" {
		return os.MkdirTemp("", "strikes-soak-")
	}
	return keep, os.Mkdir(keep, 0o700)
}
