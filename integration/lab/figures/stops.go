package figures

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// stops sends SIGTERM to consumer processes while handlers run. Many of them end at the signal, together, so that their
// acks are on their way when the session is closed; some do not end within the time to drain.
type stops struct {
	n, processes, concurrency int
	seed                      uint64
}

const (
	briefRun = "10ms" // of most handlers
	longRun  = "1s"   // of one in longEvery
	// patience is the DrainTimeout: longRun is cut off by it.
	patience  = 300 * time.Millisecond
	longEvery = 300
)

func (s *stops) flags(f *flag.FlagSet) {
	f.IntVar(&s.n, "n", 500, "SIGTERMs")
	f.IntVar(&s.processes, "processes", 4, "consumer processes in parallel")
	f.IntVar(&s.concurrency, "concurrency", 64, "handlers in parallel, in each")
	f.Uint64Var(&s.seed, "seed", 1, "of when the signals are sent")
}

// stopsMeasured is what came of it.
type stopsMeasured struct {
	Stops       int  `json:"stops"`         // with a handler in the middle
	Idle        int  `json:"idle_stops"`    // without: not counted
	InTheMiddle int  `json:"handlers_hit"`  // that ran when the signal came
	Messages    int  `json:"messages"`      // handled
	CutOff      int  `json:"cut_off"`       // runs that did not end within the time to drain
	Unclean     int  `json:"unclean_stops"` // processes that could not tell whether their last acks arrived
	Repeated    int  `json:"lost_acks"`     // successes that ran again
	Unhandled   int  `json:"unhandled"`     // messages that never succeeded
	DeadLetters int  `json:"dead_letters"`
	Store       kept `json:"store"`
}

func (s *stops) measure(ctx context.Context, on *setup) (any, []string, error) {
	b := &book{successes: map[string]int{}}
	p, err := on.producer(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer p.Close()
	if err := on.publish(ctx, p, bodies(2*s.processes*s.concurrency)...); err != nil {
		return nil, nil, err
	}
	var publishing sync.Mutex
	rnd := rand.New(rand.NewPCG(s.seed, 1)) //nolint:gosec // to be repeated
	lives, running := errgroup.WithContext(ctx)
	lives.SetLimit(s.processes)
	for b.hits() < s.n && running.Err() == nil {
		after := 1 + rnd.IntN(s.concurrency)
		lives.Go(func() error {
			publishing.Lock()
			err := on.publish(ctx, p, bodies(after+s.concurrency/2)...)
			publishing.Unlock()
			if err == nil {
				err = s.life(ctx, on, b, after)
			}
			return err
		})
		if n := b.hits(); n > 0 && n%50 == 0 {
			on.say("%d stops", n)
		}
	}
	if err := lives.Wait(); err != nil {
		return nil, nil, err
	}
	if err := s.rest(ctx, on, b); err != nil {
		return nil, nil, err
	}
	return b.verdict(ctx, on, s.n)
}

func bodies(n int) []string {
	all := slices.Repeat([]string{briefRun, untilStop}, (n+1)/2)
	for i := range all {
		if rand.IntN(longEvery) == 0 { //nolint:gosec // nothing hangs on it
			all[i] = longRun
		}
	}
	return all
}

// life is that of one process: it is stopped once it has begun so many runs.
func (s *stops) life(ctx context.Context, on *setup, b *book, after int) error {
	spec := on.spec(s.concurrency)
	spec.Runs, spec.DrainTimeout = true, patience
	p, err := spawn(spec)
	if err != nil {
		return err
	}
	defer p.end()
	begun := 0
	_, err = p.until(ctx, time.Minute, "handlers to run", func(l line) bool {
		b.add(l)
		if l.Kind == began {
			begun++
		}
		return begun == after
	})
	if err != nil {
		return err
	}
	if err := p.terminate(); err != nil {
		return err
	}
	if _, err := p.until(ctx, 30*time.Second, "the process to stop", func(l line) bool {
		b.add(l)
		return l.Kind == stopped
	}); err != nil {
		return err
	}
	if p.wait() != nil {
		b.add(line{Kind: unclean})
	}
	return nil
}

// rest has one process handle what is left, without a stop in the middle.
func (s *stops) rest(ctx context.Context, on *setup, b *book) error {
	on.say("%d stops; the rest is handled without", b.hits())
	spec := on.spec(s.concurrency)
	spec.Runs = true
	p, err := spawn(spec)
	if err != nil {
		return err
	}
	defer p.end()
	if left := on.published - b.distinct(); left > 0 {
		_, err = p.until(ctx, 2*time.Minute, "every message to be handled", func(l line) bool {
			b.add(l)
			return b.distinct() == on.published
		})
		if err != nil {
			on.say("%v", err) // the verdict counts what is missing
		}
	}
	if err := p.terminate(); err != nil {
		return err
	}
	for l := range p.lines {
		b.add(l)
	}
	return p.wait()
}

// book keeps what the processes told. Its methods are safe for concurrent use.
type book struct {
	mu        sync.Mutex
	m         stopsMeasured
	successes map[string]int
}

func (b *book) add(l line) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch l.Kind {
	case ended:
		if l.OK {
			b.successes[l.ID]++
		} else {
			b.m.CutOff++
		}
	case signalled:
		if l.Running == 0 {
			b.m.Idle++
			return
		}
		b.m.Stops++
		b.m.InTheMiddle += l.Running
	case unclean:
		b.m.Unclean++
	default:
	}
}

// read returns what of returns of the book.
func (b *book) read(of func() int) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return of()
}

func (b *book) hits() int { return b.read(func() int { return b.m.Stops }) }

func (b *book) distinct() int { return b.read(func() int { return len(b.successes) }) }

func (b *book) verdict(ctx context.Context, on *setup, want int) (any, []string, error) {
	m := b.m
	m.Messages, m.Unhandled = len(b.successes), on.published-len(b.successes)
	for _, n := range b.successes {
		m.Repeated += n - 1
	}
	var err error
	m.Store, err = on.count(ctx)
	m.DeadLetters = m.Store.dead
	return m, m.missed(want), err
}

func (m stopsMeasured) missed(want int) (missed []string) {
	for _, zero := range []struct {
		n    int
		what string
	}{
		{m.Store.Failures + m.Store.Crashes, "counted attempts"}, {m.Repeated, "lost acks"},
		{m.Unhandled, "messages not handled"},
		{m.DeadLetters, "dead letters"}, {m.Unclean, "unclean stops"}, {m.Store.Open, "attempts left open"},
	} {
		if zero.n > 0 {
			missed = append(missed, fmt.Sprintf("%d %s", zero.n, zero.what))
		}
	}
	if m.Stops < want {
		missed = append(missed, fmt.Sprintf("%d stops of %d", m.Stops, want))
	}
	return missed
}
