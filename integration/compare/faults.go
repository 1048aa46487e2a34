package main

import (
	"context"
	"math/rand/v2"
	"slices"
	"syscall"
	"time"

	"github.com/strikesmq/strikes/internal/pause"
)

// Kinds of faults.
const (
	killProcess   = "kill"   // SIGKILL
	cutConnection = "cut"    // all connections of a process to the broker
	muteStore     = "store"  // every reply of the store is lost for a while, then the connections
	restartBroker = "broker" // killed and started
)

// rotation is a dozen faults, which come in any order.
var rotation = slices.Concat(
	slices.Repeat([]string{killProcess}, 5), slices.Repeat([]string{cutConnection}, 4), slices.Repeat([]string{muteStore},
		2), []string{restartBroker},
)

const (
	storeAway  = time.Second
	brokerAway = 300 * time.Millisecond
)

// fault is one trouble of a schedule.
type fault struct {
	kind string
	at   int // messages begun
	seat int
}

// schedule spreads n faults of some kinds over the messages. It depends on its arguments only: every way gets the same.
func schedule(n, messages, seats int, kinds []string, rnd *rand.Rand) []fault {
	var all []fault
	for len(all) < n && len(kinds) > 0 {
		for _, i := range rnd.Perm(len(kinds)) {
			all = append(all, fault{kind: kinds[i], seat: rnd.IntN(seats)})
		}
	}
	all = all[:min(n, len(all))]
	for i := range all {
		all[i].at = (2*i + 1) * messages / (2 * (n + 1))
	}
	return all
}

func without(kinds []string, not ...string) []string {
	return slices.DeleteFunc(slices.Clone(kinds), func(k string) bool { return slices.Contains(not, k) })
}

// inject begins a fault, and ends it before it returns.
func (r *run) inject(ctx context.Context, f fault) error {
	s := r.fleet.seats[f.seat]
	switch f.kind {
	case killProcess:
		s.signal(syscall.SIGKILL)
	case cutConnection:
		s.broker.Cut()
	case muteStore:
		for _, s := range r.fleet.seats {
			s.store.Mute(true)
		}
		pause.For(ctx, storeAway)
		for _, s := range r.fleet.seats {
			s.store.Mute(false)
		}
	case restartBroker:
		if err := r.lab.broker.Kill(ctx); err != nil {
			return err
		}
		pause.For(ctx, brokerAway)
		if err := r.lab.broker.Start(ctx); err != nil {
			return err
		}
		return r.queues.recovered(ctx)
	}
	return nil
}
