package compare

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/integration/internal/faults"
	"github.com/strikesmq/strikes/integration/internal/fleet"
	"github.com/strikesmq/strikes/integration/internal/ledger"
	"github.com/strikesmq/strikes/integration/internal/work"
	"github.com/strikesmq/strikes/integration/lab/ways"
	"github.com/strikesmq/strikes/internal/audit"
	"github.com/strikesmq/strikes/internal/pause"
	"github.com/strikesmq/strikes/publisher"
)

// part is one run of a way with consumer processes, from which some columns come.
type part struct {
	ways.Spec
	name     string
	messages int
	mix      mix
	faults   int
	kinds    []faults.Kind
	within   time.Duration // to drain, after the last fault
	calls    bool          // each handler calls the dependency
}

// idle is how long an empty queue must see no attempt to count as drained. Late dead letters have come by then.
func (c config) idle() time.Duration { return c.patience / 5 }

const (
	retryWait    = 50 * time.Millisecond  // of ways that can wait
	restartAfter = 200 * time.Millisecond // a process that died
	next         = 2 * time.Second        // a fault comes then, even if too few messages have begun
	settled      = 5 * time.Second        // a broker that is killed earlier may forget a new queue
)

// The parts.
const (
	underFaults = "faults"
	withKiller  = "killer"
	inOrder     = "order"
	outage      = "outage"
)

var allParts = []string{inOrder, withKiller, underFaults, outage}

// runs are the parts with processes, in the order in which they run.
func (c config) runs(kinds []faults.Kind) []part {
	order := part{name: inOrder, messages: max(c.messages/5, 20), mix: mix{fail: 0.1, poison: 0.02, spread: 2},
		faults: c.faults / 3, kinds: kinds[:ofProcesses],
		Spec: ways.Spec{Processes: 2, Concurrency: 1, Prefetch: 1, Order: true}}
	several := ways.Spec{Processes: 3, Concurrency: 4, Prefetch: 10}
	killer := part{name: withKiller, messages: max(c.messages/20, 20), mix: mix{killers: 1, fastest: 5, spread: 20},
		Spec: several}
	hurt := part{name: underFaults, messages: c.messages, mix: mix{fail: 0.15, poison: 0.03, fastest: 20, spread: 40},
		faults: c.faults, kinds: kinds, Spec: several}
	away := part{name: outage, messages: c.messages + c.messages*3/97, mix: mix{poison: 0.03, fastest: 20, spread: 40},
		faults: 1, kinds: []faults.Kind{faults.DependencyAway.Lasting(c.away)}, Spec: several, calls: true}
	order.within, killer.within, hurt.within, away.within = c.patience, c.patience/2, c.patience, c.patience
	return []part{order, killer, hurt, away}
}

// mix is the mix of the messages of a run.
type mix struct {
	fail, poison    float64 // shares of the messages
	killers         int
	fastest, spread int // milliseconds
}

// plan lays out the jobs of a run. Those that fail some times succeed within the ways.Retries.
func plan(n int, m mix, rnd *rand.Rand) []work.Job {
	jobs := make([]work.Job, n)
	for i := range jobs {
		jobs[i] = work.Job{Seq: i + 1, Do: audit.Succeed, Ms: m.fastest + rnd.IntN(m.spread+1)}
		switch at := rnd.Float64(); {
		case at < m.poison:
			jobs[i].Do = audit.Poison
		case at < m.poison+m.fail:
			jobs[i].Do, jobs[i].Times = audit.Fail, 1+rnd.IntN(ways.Retries)
		}
	}
	for _, i := range rnd.Perm(n / 2)[:min(m.killers, n/2)] { // with neighbours behind them
		jobs[i].Do, jobs[i].Times = audit.Kill, 0
	}
	return jobs
}

// run is one part of one cell.
type run struct {
	lab      *lab
	part     part
	queues   *ways.Queues
	fleet    *fleet.Fleet
	faults   *faults.Injector
	log      *ledger.Log
	dir      string
	progress *ledger.Progress

	jobs      []work.Job
	published int
}

// play runs a part and returns the verdict of the judge.
func (l *lab) play(ctx context.Context, w *ways.Way, kind string, p part) (v verdict, err error) {
	if err := l.store.Flush(ctx); err != nil {
		return v, err
	}
	dir, err := os.MkdirTemp("", "strikes-compare-")
	if err != nil {
		return v, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	r := &run{lab: l, part: p, dir: dir, progress: ledger.NewProgress(dir),
		queues: ways.NewQueues(l.broker, w, kind, "compare-"+p.name, retryWait)}
	if p.Order {
		r.queues.Main["x-single-active-consumer"] = true
	}
	rnd := rand.New(rand.NewPCG(l.seed, 1)) //nolint:gosec // to be repeated
	r.jobs = plan(p.messages, p.mix, rnd)
	due := faults.Schedule(p.kinds, p.faults, p.messages, p.Processes, rnd)
	if r.log, err = ledger.Append(dir, 0); err != nil {
		return v, err
	}
	defer func() { err = errors.Join(err, r.log.Close()) }()
	if err := r.queues.Declare(); err != nil {
		return v, err
	}
	defer func() { err = errors.Join(err, r.queues.Remove()) }()
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	r.fleet = &fleet.Fleet{Rest: restartAfter, Fail: fail}
	defer r.fleet.Close()
	if err := r.seat(ctx, w); err != nil {
		return v, err
	}
	r.faults = &faults.Injector{Log: r.log, Fleet: r.fleet, Broker: l.broker, Queues: r.queues.Names(), Store: l.store,
		Dependency: l.dependency, Say: func(string, ...any) {}, Rnd: rnd}
	if err := r.all(ctx, due); err != nil {
		return v, errors.Join(err, context.Cause(ctx))
	}
	events, err := ledger.Read(dir)
	if err != nil {
		return v, err
	}
	return judge(events, w.MostAttempts()), nil
}

// seat gives the fleet a seat for each process.
func (r *run) seat(ctx context.Context, w *ways.Way) error {
	of := spec{History: r.dir, Spec: r.part.Spec}
	of.Way, of.Queue, of.Wait = w.Name, r.queues.Name, retryWait
	if r.part.calls {
		of.Calls = r.lab.dependency.URL
	}
	for range of.Processes {
		s, err := r.fleet.NewSeat(ctx, r.lab.broker, r.lab.store, nil)
		if err != nil {
			return err
		}
		s.Command = func(number int) (*exec.Cmd, io.Closer, error) {
			of := of
			of.Number, of.AMQP, of.Redis = number, s.AMQP, s.Redis
			return fleet.Command(of)
		}
	}
	return nil
}

// all publishes, consumes, injects the faults, drains and collects.
func (r *run) all(ctx context.Context, due []faults.Fault) error {
	declared := time.Now()
	for _, j := range r.jobs {
		r.log.Write(audit.Event{Kind: audit.Published, ID: j.ID(), Seq: j.Seq, Do: j.Do, Outcome: audit.Confirmed})
	}
	if err := r.publishUpTo(ctx, len(r.jobs)/(len(due)+1)); err != nil {
		return err
	}
	if slices.ContainsFunc(due, func(f faults.Fault) bool { return f.Name == audit.BrokerKill }) {
		pause.For(ctx, settled-time.Since(declared))
	}
	r.fleet.Start(ctx)
	for i, f := range due {
		if err := r.trouble(ctx, f, (i+2)*len(r.jobs)/(len(due)+1)); err != nil {
			return err
		}
	}
	ready := func() (int, error) {
		_, gone := r.lab.broker.Returned(ctx, r.queues.Name)
		n, _, err := r.queues.Depths()
		return n, errors.Join(gone, err)
	}
	if err := r.fleet.Drain(ctx, r.part.within, r.drained, ready); err == nil {
		r.log.Write(audit.Event{Kind: audit.Drained})
	} else if ctx.Err() != nil {
		return err
	}
	return r.collect(ctx)
}

// trouble injects a fault once f.At messages have begun, or once the last fault is too long ago. It first publishes
// messages up to n, so that every way has work under every fault.
func (r *run) trouble(ctx context.Context, f faults.Fault, n int) error {
	for last := time.Now(); len(r.progress.Begun) < f.At && time.Since(last) < next; {
		if !pause.For(ctx, 20*time.Millisecond) {
			return ctx.Err()
		}
		if err := r.progress.Update(); err != nil {
			return err
		}
	}
	if err := r.publishUpTo(ctx, n); err != nil {
		return err
	}
	return r.faults.Inject(ctx, f)
}

func (r *run) publishUpTo(ctx context.Context, n int) error {
	some := r.jobs[r.published:n]
	r.published = n
	all := make([]publisher.Message, len(some))
	for i, j := range some {
		all[i] = publisher.Message{Key: r.queues.Name, Publishing: amqp.Publishing{MessageId: j.ID(), Body: j.Body()}}
	}
	return r.lab.broker.Publish(ctx, all)
}

// drained fails unless the queue is empty, and every message is handled or dead-lettered, or no attempt has begun or
// ended for the idle time.
func (r *run) drained() error {
	if err := r.progress.Update(); err != nil {
		return err
	}
	ready, dead, err := r.queues.Depths()
	accounted := len(r.progress.Done)+dead >= len(r.jobs)
	if err == nil && (ready > 0 || !accounted && time.Since(r.progress.Last) < r.lab.idle()) {
		err = errors.New("messages are left")
	}
	return err
}

// collect takes the messages out of the queues, and writes down where they were. A dead letter, or one in a queue with
// a TTL, may be on its way.
func (r *run) collect(ctx context.Context) error {
	end := time.Now().Add(r.lab.idle())
	for found := len(r.progress.Done); ; {
		before := found
		err := r.queues.Take(func(d *amqp.Delivery, dead bool) {
			found++
			e := audit.Event{Kind: audit.Left, ID: d.MessageId}
			if dead {
				e.Kind = audit.Dead
			}
			r.log.Write(e)
		})
		if err != nil {
			return err
		}
		if found == before && (found >= len(r.jobs) || time.Now().After(end)) {
			return nil
		}
		if !pause.For(ctx, 100*time.Millisecond) {
			return ctx.Err()
		}
	}
}
