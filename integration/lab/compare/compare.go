// Package compare runs the usual ways to retry a message side by side:
//
//	go run ./integration/lab compare
//	go run ./integration/lab compare -only incr,strikes -type classic -seed 7
//
// Each way gets the same messages and the same faults, from a seed; docs/comparison.md describes the parts. Consumers
// are processes that write down each attempt. A judge compares that with the content of the queues at the end. A way
// that does not drain in time is stopped. The program bench compares the speed.
package compare

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"time"

	"github.com/strikesmq/strikes/integration/internal/faults"
	"github.com/strikesmq/strikes/integration/internal/fleet"
	"github.com/strikesmq/strikes/integration/internal/rig"
	"github.com/strikesmq/strikes/integration/lab/ways"
	"github.com/strikesmq/strikes/internal/broker"
)

type config struct {
	messages, faults   int
	only, types, parts []string
	seed               uint64
	patience, away     time.Duration
	broker             rig.Options
}

func parseFlags(args []string) (config, error) {
	c := config{types: []string{ways.Classic, ways.Quorum}, parts: allParts}
	for _, w := range ways.All {
		c.only = append(c.only, w.Name)
	}
	f := flag.NewFlagSet("compare", flag.ExitOnError)
	f.IntVar(&c.messages, "messages", 1000, "`NUMBER` of the part with faults; the others have a part of that, or a "+
		"multiple")
	f.IntVar(&c.faults, "faults", 12, "`NUMBER` of faults")
	rig.List(f, &c.only, "only", "the ways; if not given, all", c.only...)
	rig.List(f, &c.types, "type", "of the queues", c.types...)
	rig.List(f, &c.parts, "parts", "the parts; if not given, all", allParts...)
	f.Uint64Var(&c.seed, "seed", rand.Uint64N(1<<32), "of messages and faults; if none, random") //nolint:gosec // printed
	f.DurationVar(&c.patience, "patience", 16*time.Second,
		"how long a way may take to drain after the last fault; half as long for a killer")
	f.DurationVar(&c.away, "away", time.Minute, "how long the part outage has the dependency away")
	c.broker.Flags(f, "queues whose names begin with compare-")
	if err := rig.Parse(f, args); err != nil {
		return c, err
	}
	if c.messages < 20 || c.faults < 0 || c.patience < time.Second || c.away < time.Second {
		return c, errors.New("-messages must be 20 at least, -faults not negative, -patience and -away 1s at least")
	}
	return c, c.broker.Validate()
}

// Run fills the table and prints it. If this process was started as a consumer, it becomes one.
func Run(ctx context.Context, args []string) error {
	fleet.Main(runWorker)
	c, err := parseFlags(args)
	if err != nil {
		return err
	}
	return compare(ctx, c, os.Stdout)
}

// lab has the servers and settings that all cells share.
type lab struct {
	config
	broker *rig.Broker
	store  *rig.Store
	kinds  []faults.Kind // a dozen faults, which come in any order

	dependency *rig.Dependency // that the handlers of the part outage call
}

// compare runs every cell and prints its row as soon as it is known.
func compare(ctx context.Context, c config, out io.Writer) (err error) {
	l := &lab{config: c}
	defer func() { err = errors.Join(err, l.broker.Close(), l.store.Close(), l.dependency.Close()) }()
	if l.broker, err = rig.OpenBroker(ctx, c.broker); err != nil {
		return err
	}
	if l.store, err = rig.OpenStore(ctx, rig.Redis); err != nil {
		return err
	}
	if l.dependency, err = rig.OpenDependency(ctx); err != nil {
		return err
	}
	if l.kinds, err = rotation(l.broker); err != nil {
		return err
	}
	known, _ := broker.ParseVersion(l.broker.Version)
	l.head(out)
	for _, kind := range l.types {
		for _, name := range l.only {
			w := ways.Find(name)
			if w.Only != "" && w.Only != kind || w.From > 0 && known.Before(4, w.From) {
				fmt.Fprintf(out, "%-15s  %-7s  not applicable\n", w.Name, kind)
				continue
			}
			cell, err := l.cell(ctx, w, kind)
			if err != nil {
				return fmt.Errorf("%s, %s queue: %w", name, kind, err)
			}
			cell.print(out, l.shown(), w, kind)
		}
	}
	return nil
}

// rotation returns a dozen faults. First come five kills of a process, and four cuts of its connections. Then come two
// losses of the store's replies, and a kill of the broker if that is possible.
func rotation(b *rig.Broker) (kinds []faults.Kind, err error) {
	some, err := faults.Named(faults.Possible(b), "sigkill", "broker-cut")
	if err != nil {
		return nil, err
	}
	kinds = slices.Concat(slices.Repeat(some[:1], 5), slices.Repeat(some[1:], 4),
		slices.Repeat([]faults.Kind{faults.StoresMute.Lasting(time.Second)}, 2))
	if b.CanKill() {
		kinds = append(kinds, faults.BrokerKill.Lasting(300*time.Millisecond))
	}
	return kinds, nil
}

// ofProcesses is the number of kinds, the first of a rotation, that disturb no server.
const ofProcesses = 5 + 4

// cell is a row: the verdicts on a way on a type of queue, by part.
type cell map[string]*verdict

func (l *lab) cell(ctx context.Context, w *ways.Way, kind string) (cell, error) {
	all := cell{}
	for _, p := range l.runs(l.kinds) {
		if !slices.Contains(l.parts, p.name) {
			continue
		}
		began := time.Now()
		v, err := l.play(ctx, w, kind, p)
		fmt.Fprintf(os.Stderr, "compare: %s, %s, %s: %.0f s\n", w.Name, kind, p.name, time.Since(began).Seconds())
		if err != nil {
			return all, fmt.Errorf("part %s: %w", p.name, err)
		}
		all[p.name] = &v
	}
	return all, nil
}
