// Command compare runs the usual ways to retry a message side by side:
//
//	go run ./integration/compare
//	go run ./integration/compare -only incr,strikes -type classic -seed 7
//
// Each way gets the same messages and the same faults, from a seed: processes are killed, connections are cut, the
// broker is killed and started, the replies of the store are lost. Another part has a message that kills its process.
// Another one counts what is handled out of order. The last one measures the speed without faults. Consumers are
// processes that write down each attempt; a judge compares that with what is in the queues at the end. A way that does
// not drain in time is stopped.
//
// RabbitMQ is a private one, or the one at -amqp. Redis is private. The table goes to standard output.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9/logging"

	"github.com/strikesmq/strikes/integration/internal/worker"
)

type config struct {
	messages, faults        int
	only, types, parts      []string
	seed                    uint64
	patience                time.Duration
	amqp                    string
	brokerKill, brokerStart string
	sbin, keep              string
}

func parseFlags(args []string) (config, error) {
	c := config{types: []string{classic, quorum}, parts: []string{inOrder, withKiller, underFaults, speed}}
	for _, w := range ways {
		c.only = append(c.only, w.name)
	}
	f := flag.NewFlagSet("compare", flag.ContinueOnError)
	f.IntVar(&c.messages, "messages", 1000, "`NUMBER` of the part with faults; the others have a part of that, or a "+
		"multiple")
	f.IntVar(&c.faults, "faults", 12, "`NUMBER` of faults")
	f.Func("only", "the ways `NAME,…` of "+strings.Join(c.only, ", ")+" (default all)", list(&c.only))
	f.Func("type", "of the queues: `TYPE,…` (default classic,quorum)", list(&c.types))
	f.Func("parts", "`PART,…` of order, killer, faults, speed (default all)", list(&c.parts))
	f.Uint64Var(&c.seed, "seed", 0, "of messages and faults; 0: a random one, which is printed")
	f.DurationVar(&c.patience, "patience", 16*time.Second,
		"how long a way may take to drain after the last fault; half as long for a killer")
	f.StringVar(&c.amqp, "amqp", "", "`URL` of a RabbitMQ to use; if empty, a private one is started. Queues whose "+
		"names begin with compare- must not exist")
	f.StringVar(&c.brokerKill, "broker-kill", "", "`command` that kills the RabbitMQ at -amqp; if empty, it is not killed")
	f.StringVar(&c.brokerStart, "broker-start", "", "`command` that starts it again")
	f.StringVar(&c.sbin, "sbin", "", "`directory` of the RabbitMQ scripts to start a private one with; if empty, the "+
		"installed one")
	f.StringVar(&c.keep, "keep", "", "leave the histories in this new `directory`")
	if err := f.Parse(args); err != nil {
		return c, err
	}
	if f.NArg() > 0 {
		return c, fmt.Errorf("unknown argument %q", f.Arg(0))
	}
	if c.seed == 0 {
		c.seed = rand.Uint64N(1 << 32) //nolint:gosec // it is printed
	}
	return c, c.validate()
}

func list(to *[]string) func(string) error {
	return func(text string) error { *to = strings.Split(text, ","); return nil }
}

func (c config) validate() error {
	for _, name := range c.only {
		if findWay(name) == nil {
			return fmt.Errorf("-only: no way %q; want some of %s", name, wayNames())
		}
	}
	for _, kind := range c.types {
		if kind != classic && kind != quorum {
			return fmt.Errorf("-type is %q: classic, quorum or both", kind)
		}
	}
	for _, name := range c.parts {
		if !slices.Contains([]string{inOrder, withKiller, underFaults, speed}, name) {
			return fmt.Errorf("-parts: no part %q; want some of order, killer, faults, speed", name)
		}
	}
	switch {
	case c.messages < 20 || c.faults < 0 || c.patience < time.Second:
		return errors.New("-messages must be 20 at least, -faults not negative, -patience 1s at least")
	case (c.brokerKill == "") != (c.brokerStart == ""):
		return errors.New("-broker-kill and -broker-start go together")
	case c.brokerKill != "" && c.amqp == "":
		return errors.New("-broker-kill is for a RabbitMQ named by -amqp; a private one is killed anyway")
	case c.amqp != "" && c.sbin != "":
		return errors.New("-sbin is for a private RabbitMQ, not for the one at -amqp")
	}
	return nil
}

func main() {
	logging.Disable() // of go-redis: it prints every failed dial
	worker.Main(runWorker)
	c, err := parseFlags(os.Args[1:])
	switch {
	case errors.Is(err, flag.ErrHelp):
		return
	case err != nil:
		fmt.Fprintln(os.Stderr, "compare:", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	err = compare(ctx, c, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "compare:", err)
		os.Exit(1)
	}
}
