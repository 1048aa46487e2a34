// Command figures measures what docs/guarantees.md says of stops, outages, restarts and sessions, one figure at a time:
//
//	go run ./integration/figures stops
//	go run ./integration/figures outage-held -for 1m -type classic
//
// Each figure runs consumer processes on a RabbitMQ of its own (or the one at -amqp) and always on a Redis of its own,
// which it kills or freezes. Progress goes to standard error. The last line on standard output is one JSON object with
// what was measured. The exit status is 1 if the figure is missed, or could not be measured.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9/logging"

	"github.com/strikesmq/strikes/integration/internal/worker"
)

// figure is one promise that can be measured.
type figure interface {
	flags(f *flag.FlagSet)

	// measure returns what was measured, and in words what of it misses the promise.
	measure(ctx context.Context, s *setup) (measured any, missed []string, err error)
}

// entry is a figure with its name and what is promised.
type entry struct {
	name, promise string
	figure        figure
}

var figures = []entry{
	{"stops", "SIGTERM in the middle of handlers: nothing counted, no ack lost", &stops{}},
	{"outage-first", "store down, no failures: first deliveries at 95 % of their rate at least", &outageFirst{}},
	{"outage-held", "store down, every delivery held: none begun or settled, CPU under 5 %, all counted once after",
		&outageHeld{}},
	{"drain", "broker killed: drained after its restart in at most 1.5 times the time without the kill", &drain{}},
	{"sessions", "connections cut: goroutines flat over all sessions", &sessions{}},
}

func main() {
	logging.Disable() // of go-redis: it prints every failed dial
	worker.Main(runWorker)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	reached, err := run(ctx, os.Args[1:])
	stop()
	switch {
	case errors.Is(err, errUsage):
		usage()
		os.Exit(2)
	case errors.Is(err, flag.ErrHelp):
		return
	case err != nil:
		fmt.Fprintln(os.Stderr, "figures:", err)
	}
	if err != nil || !reached {
		os.Exit(1)
	}
}

var errUsage = errors.New("which figure?")

func usage() {
	fmt.Fprintln(os.Stderr, "usage: figures NAME [flags]; NAME -h lists the flags")
	for _, f := range figures {
		fmt.Fprintf(os.Stderr, "  %-14s%s\n", f.name, f.promise)
	}
}

// run measures the figure that args name, and prints it.
func run(ctx context.Context, args []string) (reached bool, err error) {
	if len(args) == 0 {
		return false, errUsage
	}
	i := slices.IndexFunc(figures, func(e entry) bool { return e.name == args[0] })
	if i < 0 {
		return false, errUsage
	}
	chosen := figures[i]
	set := flag.NewFlagSet(chosen.name, flag.ContinueOnError)
	cfg := config{}
	cfg.flags(set)
	chosen.figure.flags(set)
	if err := set.Parse(args[1:]); err != nil {
		return false, err
	}
	if err := cfg.validate(set.Args()); err != nil {
		return false, err
	}
	return cfg.report(ctx, chosen.name, chosen.figure)
}

// result is what is printed of a figure.
type result struct {
	Figure   string  `json:"figure"`
	Reached  bool    `json:"reached"`
	Missed   string  `json:"missed,omitempty"`
	Broker   string  `json:"rabbitmq"`
	Type     string  `json:"type"`
	Seconds  float64 `json:"seconds"`
	Measured any     `json:"measured"`
}

func (c config) report(ctx context.Context, name string, f figure) (reached bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s, err := open(ctx, c)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	go worker.EndWithParent(ctx, cancel)
	began := time.Now()
	measured, missed, err := f.measure(ctx, s)
	if err != nil {
		return false, fmt.Errorf("%s: %w", name, err)
	}
	text, err := json.Marshal(result{
		Figure: name, Reached: len(missed) == 0, Missed: strings.Join(missed, "; "), Broker: s.broker.version,
		Type: c.kind, Seconds: seconds(time.Since(began)), Measured: measured,
	})
	if err != nil {
		return false, err
	}
	fmt.Fprintln(os.Stdout, string(text))
	return len(missed) == 0, nil
}

// seconds of a duration, to the millisecond.
func seconds(d time.Duration) float64 { return ratio(d.Seconds(), 1) }

// ratio to three digits; 0 of nothing.
func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return float64(int64(a/b*1000+0.5)) / 1000
}

// median of what of returns; of an even number the lower one.
func median[T any](all []T, of func(T) float64) float64 {
	values := make([]float64, len(all))
	for i, v := range all {
		values[i] = of(v)
	}
	slices.Sort(values)
	return values[(len(values)-1)/2]
}
