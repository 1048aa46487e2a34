package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/strikesmq/strikes/internal/audit"
	"github.com/strikesmq/strikes/internal/pause"
)

// fault is one kind of trouble: do begins it, and ends it before it returns.
type fault struct {
	name  string
	needs string // what it has to itself: seats, broker, store, producer
	do    func(f *faults, ctx context.Context, s *seat) error
}

// kinds are those that any broker can stand; killing is added where it is possible.
var kinds = []fault{
	{"sigkill", "seats", func(_ *faults, _ context.Context, s *seat) error { return s.signal(syscall.SIGKILL) }},
	{"sigterm", "seats", func(_ *faults, _ context.Context, s *seat) error { return s.signal(syscall.SIGTERM) }},
	{"zombie", "seats", func(f *faults, ctx context.Context, s *seat) error {
		return f.freeze(ctx, s, 3*heartbeat+f.upTo(2*time.Second))
	}},
	{"blink", "seats", func(f *faults, ctx context.Context, s *seat) error {
		return f.freeze(ctx, s, f.upTo(time.Second))
	}},
	{"broker-cut", "", func(_ *faults, _ context.Context, s *seat) error { s.broker.Cut(); return nil }},
	{"broker-half-open", "", func(f *faults, ctx context.Context, s *seat) error {
		s.broker.Halve()
		pause.For(ctx, f.upTo(3*heartbeat))
		s.broker.Cut()
		return nil
	}},
	{"broker-latency", "", func(f *faults, ctx context.Context, s *seat) error {
		return f.slow(ctx, s.broker, 300*time.Millisecond)
	}},
	{"broker-mute", "", func(f *faults, ctx context.Context, s *seat) error { return f.silence(ctx, s.broker) }},
	{"store-pause", "store", (*faults).pauseStore},
	{"store-kill", "store", (*faults).killStore},
	{"store-flush", "store", (*faults).flushStore},
	{"confirms-cut", "producer", func(f *faults, _ context.Context, _ *seat) error { f.producer.Cut(); return nil }},
	{"confirms-mute", "producer", func(f *faults, ctx context.Context, _ *seat) error {
		return f.silence(ctx, f.producer)
	}},
}

// linkKinds are for a store that is reached by one address.
var linkKinds = []fault{
	{"store-cut", "", func(_ *faults, _ context.Context, s *seat) error { s.store.Cut(); return nil }},
	{"store-latency", "", func(f *faults, ctx context.Context, s *seat) error {
		return f.slow(ctx, s.store, 400*time.Millisecond)
	}},
	{"store-mute", "", func(f *faults, ctx context.Context, s *seat) error { return f.silence(ctx, s.store) }},
}

// pushKinds are for fleets of which a seat pushes.
var pushKinds = []fault{{"endpoint-kill", "", func(f *faults, _ context.Context, _ *seat) error {
	for _, s := range f.fleet.seats {
		if s.push != nil {
			s.push.endpoint.kill()
		}
	}
	return nil
}}}

var brokerKinds = []fault{{audit.BrokerKill, "broker", (*faults).killBroker}}

var privateBrokerKinds = []fault{
	{audit.BrokerRestart, "broker", (*faults).restartBroker},
	{"broker-pause", "broker", (*faults).pauseBroker},
}

var clusterKinds = []fault{
	{"partition", "broker", (*faults).isolateNode},
	{"partition-silent", "broker", (*faults).silenceNode},
}

// faults injects them, two at a time at most.
type faults struct {
	log      *audit.Log
	fleet    *fleet
	broker   *broker
	store    *store
	producer links
	say      func(format string, args ...any)

	rnd    *rand.Rand
	due    chan fault
	tasks  sync.WaitGroup
	failed chan error
	locks  map[string]*sync.Mutex
	mu     sync.Mutex // guards rnd
}

func (f *faults) start(ctx context.Context) {
	f.due, f.failed, f.locks = make(chan fault), make(chan error, 2), map[string]*sync.Mutex{}
	for _, what := range []string{"", "seats", "broker", "store", "producer"} {
		f.locks[what] = &sync.Mutex{}
	}
	for range 2 {
		f.tasks.Go(func() {
			for k := range f.due {
				if err := f.inject(ctx, k); err != nil {
					f.failed <- fmt.Errorf("fault %s: %w", k.name, err)
					return
				}
			}
		})
	}
}

// finish waits for the faults that are under links.
func (f *faults) finish() error {
	close(f.due)
	f.tasks.Wait()
	select {
	case err := <-f.failed:
		return err
	default:
		return nil
	}
}

// offer waits until the fault begins.
func (f *faults) offer(ctx context.Context, k fault) error {
	select {
	case f.due <- k:
		return nil
	case err := <-f.failed:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (f *faults) inject(ctx context.Context, k fault) error {
	if k.needs != "" {
		f.locks[k.needs].Lock()
		defer f.locks[k.needs].Unlock()
	}
	seat := f.fleet.seats[f.intN(len(f.fleet.seats))]
	f.say("fault: %s", k.name)
	f.log.Write(audit.Event{Kind: audit.Fault, Fault: k.name})
	err := k.do(f, ctx, seat)
	if k.needs == "broker" {
		err = errors.Join(err, f.broker.recovered(ctx))
		f.log.Write(audit.Event{Kind: audit.FaultOver, Fault: k.name})
	}
	if err == errNoProcess || ctx.Err() != nil { //nolint:errorlint // it is never wrapped
		return nil // the process had just died of something else
	}
	return err
}

func (f *faults) intN(n int) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.rnd.IntN(n)
}

// upTo is between a quarter of d and d.
func (f *faults) upTo(d time.Duration) time.Duration {
	return d/4 + time.Duration(f.intN(int(d/time.Millisecond*3/4)))*time.Millisecond
}

func (f *faults) freeze(ctx context.Context, s *seat, d time.Duration) error {
	if err := s.signal(syscall.SIGSTOP); err != nil {
		return err
	}
	pause.For(ctx, d)
	return s.signal(syscall.SIGCONT)
}

// line is a proxy, or all proxies of a client.
type line interface {
	Cut()
	Mute(on bool)
	Delay(d time.Duration)
}

func (f *faults) slow(ctx context.Context, l line, d time.Duration) error {
	l.Delay(d)
	pause.For(ctx, f.upTo(3*time.Second))
	l.Delay(0)
	return nil
}

// silence drops what the server says, and then the connections that missed it.
func (f *faults) silence(ctx context.Context, l line) error {
	l.Mute(true)
	pause.For(ctx, f.upTo(3*time.Second))
	l.Mute(false)
	return nil
}

// schedule is n kinds by the seed, each as often as the others, and where in the publishing each begins.
func schedule(all []fault, n, messages int, rnd *rand.Rand) (order []fault, at []int) {
	for len(order) < n {
		for _, i := range rnd.Perm(len(all)) {
			order = append(order, all[i])
		}
	}
	order = order[:n]
	for i := range order {
		at = append(at, (i+1)*messages/(n+1))
	}
	return order, at
}

// possible are the kinds that the servers allow and the flags name. In a cluster those that it is for come more often.
func possible(cfg config, b *broker) ([]fault, error) {
	all := slices.Clone(kinds)
	if b.canKill() {
		all = append(all, brokerKinds...)
	}
	if b.private() {
		all = append(all, privateBrokerKinds...)
	}
	if b.cluster == nil {
		all = append(all, linkKinds...)
	} else {
		all = slices.Concat(all, brokerKinds, brokerKinds, clusterKinds, clusterKinds)
	}
	if slices.Contains(cfg.languages, inHTTP) {
		all = append(all, pushKinds...)
	}
	if cfg.only == "" {
		return all, nil
	}
	var some []fault
	for name := range strings.SplitSeq(cfg.only, ",") {
		i := slices.IndexFunc(all, func(k fault) bool { return k.name == name })
		if i < 0 {
			return nil, fmt.Errorf("-only: there is no fault %q on this broker", name)
		}
		some = append(some, all[i])
	}
	return some, nil
}
