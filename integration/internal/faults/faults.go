// Package faults injects trouble into a fleet and its servers: kinds of faults, a schedule by a seed, and their turns.
package faults

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/strikesmq/strikes/integration/internal/fleet"
	"github.com/strikesmq/strikes/integration/internal/ledger"
	"github.com/strikesmq/strikes/integration/internal/rig"
	"github.com/strikesmq/strikes/internal/audit"
	"github.com/strikesmq/strikes/internal/proxy"
)

// Heartbeat is that of the connections to the broker.
const Heartbeat = 2 * time.Second

// Kind is one kind of trouble. Do begins it, and ends it before it returns.
type Kind struct {
	Name        string
	needs       string        // of which it is the only fault: seats, broker, store, producer, dependency
	least, most time.Duration // that it lasts; no least: a quarter of most
	Do          func(context.Context, Trouble) error
}

// Trouble is a fault that is under way.
type Trouble struct {
	*Injector
	seat  *fleet.Seat
	lasts time.Duration
}

// Lasting returns the kind with a fixed time for which it lasts.
func (k Kind) Lasting(d time.Duration) Kind {
	k.least, k.most = d, d
	return k
}

// Fault is one trouble of a schedule: a kind, the seat that it is about, and how many messages have come before it.
type Fault struct {
	Kind
	Seat, At int
}

// Schedule spreads n faults over the messages, each entry of kinds as often as the others. It follows from its
// arguments alone.
func Schedule(kinds []Kind, n, messages, seats int, rnd *rand.Rand) []Fault {
	var all []Fault
	for len(all) < n && len(kinds) > 0 {
		for _, i := range rnd.Perm(len(kinds)) {
			all = append(all, Fault{Kind: kinds[i], Seat: rnd.IntN(seats)})
		}
	}
	all = all[:min(n, len(all))]
	for i := range all {
		all[i].At = (2*i + 1) * messages / (2 * (n + 1))
	}
	return all
}

// Injector injects faults.
type Injector struct {
	Log      *ledger.Log
	Fleet    *fleet.Fleet
	Broker   *rig.Broker
	Queues   []string // that the broker serves again when a fault of it is over
	Store    *rig.Store
	Producer *proxy.Proxy // of the program that publishes

	Dependency *rig.Dependency // that handlers call; nil: they call none

	Say func(format string, args ...any)
	Rnd *rand.Rand

	tasks *errgroup.Group
	ctx   context.Context //nolint:containedctx // of the tasks
	mu    sync.Mutex      // guards Rnd
	locks sync.Map        // *sync.Mutex by the thing that it keeps from other faults
}

// Start has up to two faults go on at a time, until Finish.
func (in *Injector) Start(ctx context.Context) {
	in.tasks, in.ctx = errgroup.WithContext(ctx)
	in.tasks.SetLimit(2)
}

// Offer waits until the fault begins, and fails if another one has failed. Finish says how.
func (in *Injector) Offer(f Fault) error {
	in.tasks.Go(func() error { return in.Inject(in.ctx, f) })
	return in.ctx.Err()
}

// Finish waits for the faults that are under way.
func (in *Injector) Finish() error { return in.tasks.Wait() }

// Inject begins a fault, and ends it before it returns.
func (in *Injector) Inject(ctx context.Context, f Fault) error {
	defer in.lock(f.needs)()
	in.Say("fault: %s", f.Name)
	in.Log.Write(audit.Event{Kind: audit.Fault, Fault: f.Name})
	err := f.Do(ctx, Trouble{in, in.Fleet.Seats[f.Seat], in.lasts(f.Kind)})
	switch f.needs {
	case "broker":
		err = errors.Join(err, in.Broker.Recovered(ctx, in.Queues...))
		fallthrough
	case "dependency":
		in.Log.Write(audit.Event{Kind: audit.FaultOver, Fault: f.Name})
	}
	if err == nil || err == os.ErrProcessDone || ctx.Err() != nil { //nolint:errorlint // a seat does not wrap it
		return nil // the process had just died of something else
	}
	return fmt.Errorf("fault %s: %w", f.Name, err)
}

// lock keeps the thing that a fault disturbs from all other faults, until unlock is called.
func (in *Injector) lock(what string) (unlock func()) {
	if what == "" {
		return func() {}
	}
	l, _ := in.locks.LoadOrStore(what, &sync.Mutex{})
	l.(*sync.Mutex).Lock()
	return l.(*sync.Mutex).Unlock
}

func (in *Injector) lasts(k Kind) time.Duration {
	in.mu.Lock()
	defer in.mu.Unlock()
	least := cmp.Or(k.least, k.most/4)
	return least + time.Duration(in.Rnd.Int64N(int64(k.most-least)+1))
}
