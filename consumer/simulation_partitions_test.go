package consumer

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/counter/rules"
)

// newSharePlan is a plan of a queue whose partitions several processes share. The lane is the routing key.
func newSharePlan(rng *rand.Rand) simPlan {
	p := simPlan{
		maxRetries: []int{-1, 1, 2}[rng.IntN(3)], isolation: IsolationSuspects, retry: RetryInPlace, ordered: true,
		partitions: 2 + rng.IntN(4), processes: 1 + rng.IntN(4), concurrency: 1 + rng.IntN(3), prefetch: 1 + rng.IntN(8),
		faults: 4 + rng.IntN(24),
	}
	if rng.IntN(4) == 0 {
		p.retry, p.prefetch, p.concurrency = RetryRequeue, 1, 1
	}
	if rng.IntN(3) == 0 {
		p.sour = rng.IntN(40)
	}
	for n := range 8 + rng.IntN(24) {
		m := simMessagePlan{id: fmt.Sprint("o", n), copies: 1, does: simBehaviours[0], lane: fmt.Sprint(rng.IntN(8))}
		if rng.IntN(4) == 0 {
			m.does = laneBehaviours[rng.IntN(len(laneBehaviours))]
		}
		p.messages = append(p.messages, m)
	}
	return p
}

func (p *simPlan) partitionOf(lane string) int {
	if p.partitions == 0 {
		return 0
	}
	return int(lane[0]) % p.partitions
}

// share runs the sessions of a process on its partitions, as a session on the queue does.
func (p *simProc) share() {
	w := p.world
	c := w.consumer()
	c.Partitions, c.Counter = w.plan.partitions, &simDeals{Counter: counter.NewMemory(nil), proc: p}
	c.Handler = func(context.Context, amqp.Delivery) error { return nil } // each session has its own
	s := newSession(c.withDefaults(), "/", nil)
	s.late = p.late
	room := find[*partitionRoom](s.rooms)
	s.consuming = func() {}
	room.serve = p.servePartition
	p.serving.Go(func() {
		_ = room.around(p.ctx, &amqp.Connection{}, nil) // its ends are seen at the broker
		p.over.Store(true)
	})
}

// servePartition takes the place of partitionRoom.consume, which needs a broker.
func (p *simProc) servePartition(ctx context.Context, _ *amqp.Connection, mine *session) (bool, error) {
	var partition int
	if _, err := fmt.Sscanf(mine.source, "orders.%d", &partition); err != nil {
		panic(err)
	}
	var s *simSession
	var link *link
	op := &simOp{proc: p, kind: "open", number: int64(partition)}
	op.act = func() bool { s, link = p.world.subscribe(p, partition); return true }
	op.drop = func() {}
	p.world.park(op)
	<-op.done
	if s == nil {
		return false, nil
	}
	mine.isolation, mine.Handler, mine.Counter = p.isolation, s.handle, newSimLink(s)
	mine.route = nil
	err := mine.serve(ctx, link)
	s.ended.Store(true)
	return false, err
}

// simShares is the dealer as the processes see it, with its lies, and the judge of their shares.
type simShares struct {
	deal    counter.Deal
	earlier []counter.Deal
	clock   time.Duration    // of the store, beyond ours
	lies    int              // so many of the next replies are wrong
	mu      sync.Mutex       // of late: a process that stops waiting adds to it
	late    []rules.DealRead // reads that arrive later
	lied    int
	reads   int
	flawed  func(*counter.Deal, rules.DealRead, []int) []int // a planted fault; nil: none
	changed time.Time                                        // last: a process began or ended, or the lies
	uneven  bool
}

// simDeals is the Counter of a process that reads the deal.
type simDeals struct {
	Counter
	proc *simProc
}

func (d *simDeals) Deal(ctx context.Context, _, _ string, r rules.DealRead) (mine []int, err error) {
	w := d.proc.world
	r.Token = fmt.Sprintf("p%04d", d.proc.id) // the dealer's choice depends on the order of the tokens
	op := &simOp{proc: d.proc, kind: "deal"}
	op.act = func() bool { mine, err = w.serveDeal(r); return true }
	op.drop = func() { err = errSimDown }
	w.park(op)
	select {
	case <-op.done:
		return mine, err
	case <-ctx.Done():
	}
	time.Sleep(time.Duration(d.proc.id)) // no two at the same moment
	if w.unpark(op) {
		w.shares.delay(r)
	}
	return nil, errSimDown
}

// delay has a read arrive late.
func (d *simShares) delay(r rules.DealRead) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.late = append(d.late, r)
}

// delayed returns the reads that are yet to arrive.
func (d *simShares) delayed() []rules.DealRead {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.late
}

func (d *simShares) forgetDelayed() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.late = nil
}

// serveDeal replies to a read, or loses it, or lies.
func (w *simWorld) serveDeal(r rules.DealRead) ([]int, error) {
	d, fate := &w.shares, 0
	d.reads++
	if w.store.broken > 0 {
		w.store.broken--
		fate = 1 + w.rng.IntN(3)
	} else if w.store.sour > 0 && w.rng.IntN(100) < w.store.sour {
		fate = 1 + w.rng.IntN(3)
	}
	switch {
	case w.store.down || fate == 1:
		return nil, errSimDown
	case fate == 2:
		d.delay(r)
		return nil, errSimDown
	}
	mine, err := d.take(r)
	switch {
	case fate == 3: // the reply is lost
		return nil, errSimDown
	case d.lies > 0 && !r.Left:
		d.lies--
		d.lied++
		mine = w.wrong(mine)
	}
	w.tell("%s reads the deal, consumes %v, left %v: %v", r.Consumer, r.Consumes, r.Left, mine)
	return mine, err
}

// take has the dealer note a read.
func (d *simShares) take(r rules.DealRead) ([]int, error) {
	d.earlier = append(d.earlier, copyOf(d.deal))
	mine, _, ok := d.deal.Deal(r, time.Now().Add(d.clock))
	if !ok {
		return nil, counter.ErrPartitions
	}
	if d.flawed != nil {
		mine = d.flawed(&d.deal, r, mine)
	}
	return mine, nil
}

func copyOf(d counter.Deal) counter.Deal {
	d.Members = slices.Clone(d.Members)
	for i := range d.Members {
		d.Members[i].Partitions = slices.Clone(d.Members[i].Partitions)
	}
	return d
}

// wrong is a reply that contradicts the deal: the share of another process, an earlier one, all, none or any.
func (w *simWorld) wrong(mine []int) (out []int) {
	d := &w.shares
	from := d.deal
	if w.chance(2) {
		from = d.earlier[w.rng.IntN(len(d.earlier))]
	}
	switch w.rng.IntN(4) {
	case 0:
		return nil
	case 1:
		if len(from.Members) > 0 {
			return slices.Clone(from.Members[w.rng.IntN(len(from.Members))].Partitions)
		}
		return mine
	}
	for i := range w.plan.partitions {
		if w.chance(2) {
			out = append(out, i)
		}
	}
	return out
}

// lie lets the dealer go wrong, or freezes a process. It reports whether it did.
func (w *simWorld) lie() bool {
	w.faults--
	d := &w.shares
	switch w.rng.IntN(8) {
	case 0, 1:
		d.lies += 1 + w.rng.IntN(12)
		w.tell("the next %d deals are wrong", d.lies)
	case 2:
		d.deal = counter.Deal{}
		w.tell("the deal is lost")
	case 3:
		if len(d.earlier) > 0 {
			d.deal = copyOf(d.earlier[w.rng.IntN(len(d.earlier))])
			w.tell("the deal is an earlier one")
		}
	case 4:
		step := time.Duration(w.rng.Int64N(int64(time.Hour)))
		if d.clock -= step; w.chance(3) {
			d.clock += 2 * step
		}
		w.tell("the store's clock is off by %v", d.clock)
	case 5:
		if late := d.delayed(); len(late) > 0 {
			_, _ = d.take(late[w.rng.IntN(len(late))])
			w.tell("a read arrives late")
		}
	default:
		p, _ := w.victim()
		if p == nil {
			w.faults++
			return false
		}
		p.frozen = time.Now().Add(time.Duration(w.rng.Int64N(int64(40 * time.Second))))
		w.tell("process %d freezes until %v", p.id, p.frozen)
		if w.chance(2) { // the broker misses its heartbeats
			for _, s := range p.sessions {
				if !s.cut && !s.closed {
					w.cut(s)
				}
			}
		}
	}
	return true
}

// truth ends the lies.
func (w *simWorld) truth() {
	d := &w.shares
	d.forgetDelayed()
	d.lies, d.changed = 0, time.Now()
	for _, p := range w.procs {
		p.frozen = time.Time{}
		for _, s := range p.sessions {
			if w.plan.partitions > 0 {
				s.zombie = time.Time{}
			}
		}
	}
}

// isEven reports whether each partition is consumed, and the numbers of partitions of any two processes differ by one
// at most. It asks the broker, not the dealer.
func (w *simWorld) isEven() bool {
	numbers := map[*simProc]int{}
	for _, p := range w.procs {
		if !p.dead.Load() && !p.stopping {
			numbers[p] = 0
		}
	}
	if len(numbers) < w.plan.processes {
		return false
	}
	for i := range w.plan.partitions {
		s := w.active(i)
		if s == nil {
			return false
		}
		numbers[s.proc]++
	}
	least, most := w.plan.partitions, 0
	for _, n := range numbers {
		least, most = min(least, n), max(most, n)
	}
	return most-least <= 1
}

// evenWithin is the time that is promised after the last change, while the store replies.
const evenWithin = 10 * time.Second

func (w *simWorld) judgeShares() {
	d := &w.shares
	if w.plan.partitions == 0 || !w.calm || w.ending || d.uneven {
		return
	}
	if !w.isEven() && time.Since(d.changed) > evenWithin {
		d.uneven = true
		w.judge.broken = append(w.judge.broken, fmt.Sprintf("the shares are not even %v after the last change: %+v",
			time.Since(d.changed), d.deal.Members))
	}
}

var simShared = simKind{stream: 13, plan: newSharePlan, lanes: true, audited: true}

// TestSimulationPartitions plays schedules in which processes share the partitions of a queue while deals lie, are
// late, lost or old, the store forgets and its clock is set back, and processes freeze. No message begins before the
// one ahead of it is done, no two attempts at a key run at once, nothing is stuck, and the shares are even 10 s after
// the last fault.
func TestSimulationPartitions(t *testing.T) {
	begun, lied, reads := 0, 0, 0
	n := eachSchedule(t, simShared, func(seed uint64, w *simWorld) {
		if seed < *simFrom+20 && !raceDetector {
			wantRepeated(t, seed, simShared, w)
		}
		begun, lied, reads = begun+w.begun(), lied+w.shares.lied, reads+w.shares.reads
	})
	t.Logf("%d schedules: %d attempts, %d reads of the deal, %d of them with a wrong reply", n, begun, reads, lied)
	if n > 100 && lied == 0 {
		t.Error("no deal lied")
	}
}

// TestSimulationPartitionsFindsFaults plants faults in the dealer, the follower and the lanes.
func TestSimulationPartitionsFindsFaults(t *testing.T) {
	repeatable(t)
	const uneven, early = "the shares are not even", "was handled"
	for name, tt := range map[string]struct {
		plant func(*simWorld)
		want  string
	}{
		"the dealer forgets a partition": {dealing(func(_ *counter.Deal, _ rules.DealRead, mine []int) []int {
			return slices.DeleteFunc(mine, func(p int) bool { return p == 0 })
		}), uneven},
		"no process expires": {dealing(func(d *counter.Deal, _ rules.DealRead, mine []int) []int {
			for i := range d.Members {
				d.Members[i].Read = d.Read.Add(time.Hour)
			}
			return mine
		}), uneven},
		"every process gets all partitions": {dealing(func(d *counter.Deal, _ rules.DealRead, _ []int) (all []int) {
			for i := range d.Partitions {
				all = append(all, i)
			}
			return all
		}), uneven},
		"the follower keeps its first share": {func(w *simWorld) {
			first := map[string][]int{}
			dealing(func(_ *counter.Deal, r rules.DealRead, mine []int) []int {
				if _, known := first[r.Token]; !known {
					first[r.Token] = mine
				}
				return first[r.Token]
			})(w)
		}, uneven},
		"messages of a key have several lanes": {func(w *simWorld) { w.plan.astray = true }, early},
	} {
		t.Run(name, func(t *testing.T) {
			planted := simShared
			planted.plant = tt.plant
			caught(t, 20, 3, planted, func(w *simWorld) int {
				return min(1, strings.Count(strings.Join(w.judge.broken, "\n"), tt.want))
			})
		})
	}
}

func dealing(flawed func(*counter.Deal, rules.DealRead, []int) []int) func(*simWorld) {
	return func(w *simWorld) { w.shares.flawed = flawed }
}
