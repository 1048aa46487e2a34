// Command lab checks the promises of docs/ about strikes on real servers. -h lists its programs, and PROGRAM -h lists
// the flags of one.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/redis/go-redis/v9/logging"

	"github.com/strikesmq/strikes/integration/internal/fleet"
	"github.com/strikesmq/strikes/integration/lab/bench"
	"github.com/strikesmq/strikes/integration/lab/compare"
	"github.com/strikesmq/strikes/integration/lab/soak"
)

// programs are those of the laboratory. A flag that one cannot parse ends this process.
var programs = []struct {
	name, does string
	run        func(ctx context.Context, args []string) error
}{
	{"soak", "runs consumers under faults, and checks the end of each message", soak.Run},
	{"bench", "compares the speed of strikes with its alternatives", bench.Run},
	{"compare", "runs the usual ways to retry under the same faults", compare.Run},
}

func main() {
	logging.Disable() // of go-redis: it prints every failed dial
	for _, p := range programs {
		if len(os.Args) > 1 && os.Args[1] == p.name {
			os.Exit(run(p.name, p.run))
		}
	}
	fmt.Fprintln(os.Stderr, "usage: lab PROGRAM [flags]; PROGRAM -h lists the flags")
	for _, p := range programs {
		fmt.Fprintf(os.Stderr, "  %-9s%s\n", p.name, p.does)
	}
	os.Exit(2)
}

// run runs a program until it ends, or this process is told to end, and returns the exit status.
func run(name string, program func(ctx context.Context, args []string) error) (status int) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go fleet.EndWithParent(ctx, cancel)
	if err := program(ctx, os.Args[2:]); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		return 1
	}
	return 0
}
