package consumer

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/counter"
)

var (
	outageSchedules = flag.Int("outage.n", 2, "random schedules of TestOutageSchedules; 40 in .ci/run")
	outageSeconds   = flag.Int("outage.seconds", 20, "of TestPoisonOpensNothing; 120 in .ci/run")
)

// outage is a queue, its fleet, and the dependency of the handlers. All times are those of a synctest bubble.
type outage struct {
	t     *testing.T
	c     Consumer
	store *outageStore
	rng   *rand.Rand // with mu

	mu    sync.Mutex
	ready []*outageMessage // by seq
	seq   int
	procs []*outageProc
	done  map[string]time.Time // good messages that succeeded
	dead  []string
	runs  map[string]int // attempts, by id
	away  bool           // the service that the handlers need is down
}

type outageMessage struct {
	id    string
	seq   int
	again bool
}

// outageStore is a Memory that notes the counted failures, and may be down, lose replies, or take requests late.
type outageStore struct {
	*counter.Memory
	down    atomic.Bool
	loses   atomic.Int64 // every nth reply; 0: none
	stalls  atomic.Int64 // every nth request is taken 8 s late; 0: none
	n       atomic.Int64
	counted atomic.Int64 // failures of good messages
	seen    sync.Map     // tokens
}

func (s *outageStore) reply(err error) error {
	if every := s.loses.Load(); err == nil && every > 0 && s.n.Add(1)%every == 0 {
		return errDown
	}
	return err
}

// late waits as long as the request is under way, also if its sender waits no longer. The ages in it were those at its
// sending.
func (s *outageStore) late(p *counter.Progress) {
	every := s.stalls.Load()
	if every == 0 || s.n.Add(1)%every != 0 {
		return
	}
	const takes = 8 * time.Second
	time.Sleep(takes)
	for _, at := range []*time.Time{&p.Began, &p.Ended, &p.Attempt} {
		if !at.IsZero() {
			*at = at.Add(takes)
		}
	}
}

func (s *outageStore) Start(ctx context.Context, a counter.Attempt, mode counter.Mode, limit int) (counter.Reply,
	error) {
	if s.down.Load() {
		return counter.Reply{}, errDown
	}
	s.late(&a.Progress)
	r, err := s.Memory.Start(context.WithoutCancel(ctx), a, mode, limit)
	return r, s.reply(cmp.Or(err, ctx.Err()))
}

func (s *outageStore) Fail(ctx context.Context, a counter.Attempt, f counter.Failure) (counter.Reply, error) {
	if s.down.Load() {
		return counter.Reply{}, errDown
	}
	s.late(&a.Progress)
	r, err := s.Memory.Fail(context.WithoutCancel(ctx), a, f)
	if _, known := s.seen.LoadOrStore(a.Token, true); !known && err == nil && r.Code != counter.ReplyUncounted &&
		strings.HasPrefix(a.ID, "good") {
		s.counted.Add(1)
	}
	return r, s.reply(cmp.Or(err, ctx.Err()))
}

func (s *outageStore) End(ctx context.Context, a counter.Attempt, ok bool) error {
	if s.down.Load() {
		return errDown
	}
	return s.reply(s.Memory.End(ctx, a, ok))
}

func (s *outageStore) AskBreaker(ctx context.Context, vhost, queue string, a counter.Ask) (counter.BreakerState,
	error) {
	if s.down.Load() {
		return counter.BreakerState{}, errDown
	}
	s.late(&a.Progress)
	b, err := s.Memory.AskBreaker(context.WithoutCancel(ctx), vhost, queue, a)
	return b, s.reply(cmp.Or(err, ctx.Err()))
}

// outageProc is one process of the fleet: the broker's side of its channel.
type outageProc struct {
	of                 *outage
	s                  *session
	bad                bool // everything fails in it
	gone               atomic.Bool
	main, second       chan amqp.Delivery
	mainTag, secondTag string
	tags               uint64
	held               map[uint64]*outageMessage
	by                 map[uint64]string // consumer tags of the deliveries in held
	stop               func()
	ended              chan struct{}
}

func newOutage(t *testing.T, seed uint64, c Consumer) *outage {
	c.Queue = "orders"
	store := &outageStore{Memory: counter.NewMemory(nil)}
	c.Counter = store
	return &outage{t: t, c: c, store: store, rng: rand.New(rand.NewPCG(seed, 1)), done: map[string]time.Time{},
		runs: map[string]int{}}
}

// start adds a process.
func (o *outage) start() *outageProc {
	p := &outageProc{of: o, main: make(chan amqp.Delivery, 1000), mainTag: "main", held: map[uint64]*outageMessage{},
		by: map[uint64]string{}, ended: make(chan struct{})}
	c := o.c
	c.Handler = p.handle
	p.s = newSession(c.withDefaults(), "/", nil)
	p.s.isolation, p.s.late = newIsolation(), newLate()
	p.s.link = &link{channel: p}
	ctx, cancel := context.WithCancel(context.Background())
	end := p.s.prepare(ctx, ctx)
	var beside sync.WaitGroup
	for _, r := range p.s.rooms {
		beside.Go(func() { r.beside(ctx) })
	}
	beside.Go(func() {
		for {
			select {
			case d := <-p.main:
				p.s.take(ctx, d)
			case d := <-p.s.more:
				p.s.take(ctx, d)
			case <-ctx.Done():
				return
			}
		}
	})
	p.stop = sync.OnceFunc(func() {
		cancel()
		beside.Wait()
		p.s.tasks.Wait()
		end()
		p.s.late.close()
		close(p.ended)
	})
	o.mu.Lock()
	defer o.mu.Unlock()
	o.procs = append(o.procs, p)
	o.pump()
	return p
}

// kill ends a process where it stands. Its deliveries return to the queue.
func (o *outage) kill(p *outageProc) {
	p.gone.Store(true)
	go p.stop()
	o.mu.Lock()
	defer o.mu.Unlock()
	o.procs = slices.DeleteFunc(o.procs, func(x *outageProc) bool { return x == p })
	for _, m := range p.held {
		m.again = true
		o.back(m)
	}
	clear(p.held)
	o.pump()
}

var errOutage = errors.New("dial tcp 10.0.0.7:5432: connection refused")

func (p *outageProc) handle(ctx context.Context, d amqp.Delivery) error {
	o := p.of
	o.mu.Lock()
	took := time.Duration(1+o.rng.IntN(20)) * time.Millisecond
	o.mu.Unlock()
	time.Sleep(took)
	o.mu.Lock()
	defer o.mu.Unlock()
	if p.gone.Load() {
		<-ctx.Done()
		return ctx.Err()
	}
	o.runs[d.MessageId]++
	switch {
	case o.away || p.bad:
		return errOutage
	case strings.HasPrefix(d.MessageId, "poison"):
		return errBoom
	}
	o.done[d.MessageId] = time.Now()
	return nil
}

// publish adds messages.
func (o *outage) publish(ids ...string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, id := range ids {
		o.seq++
		o.ready = append(o.ready, &outageMessage{id: id, seq: o.seq})
	}
	o.pump()
}

func numbered(prefix string, from, n int) (ids []string) {
	for i := range n {
		ids = append(ids, fmt.Sprint(prefix, from+i))
	}
	return ids
}

func (o *outage) setAway(away bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.away = away
}

// back returns a message to its position. The caller has locked o.mu.
func (o *outage) back(m *outageMessage) {
	at, _ := slices.BinarySearchFunc(o.ready, m.seq, func(x *outageMessage, seq int) int { return x.seq - seq })
	o.ready = slices.Insert(o.ready, at, m)
}

// pump delivers as many messages as consumers have room for. The caller has locked o.mu.
func (o *outage) pump() {
	for moved := true; moved && len(o.ready) > 0; {
		moved = false
		for _, i := range o.rng.Perm(len(o.procs)) {
			p := o.procs[i]
			for tag, to := range map[string]chan amqp.Delivery{p.mainTag: p.main, p.secondTag: p.second} {
				most, has := p.s.Prefetch, 0
				if tag == p.secondTag {
					most = freshPrefetch
				}
				for _, by := range p.by {
					if by == tag {
						has++
					}
				}
				if to == nil || has >= most || len(o.ready) == 0 {
					continue
				}
				m := o.ready[0]
				o.ready, moved = o.ready[1:], true
				p.tags++
				p.held[p.tags], p.by[p.tags] = m, tag
				to <- amqp.Delivery{Acknowledger: p, DeliveryTag: p.tags, MessageId: m.id, Redelivered: m.again}
			}
		}
	}
}

// settle ends the delivery with this tag, or with multiple all up to it.
func (p *outageProc) settle(tag uint64, multiple bool, end func(*outageMessage)) error {
	o := p.of
	o.mu.Lock()
	defer o.mu.Unlock()
	for t, m := range p.held {
		if t == tag || multiple && t < tag {
			delete(p.held, t)
			delete(p.by, t)
			end(m)
		}
	}
	o.pump()
	return nil
}

func (p *outageProc) Ack(tag uint64, multiple bool) error {
	return p.settle(tag, multiple, func(m *outageMessage) {
		if _, handled := p.of.done[m.id]; !handled {
			p.of.t.Errorf("%s was acked, and not handled", m.id)
		}
	})
}

func (p *outageProc) Nack(tag uint64, multiple, requeue bool) error {
	return p.settle(tag, multiple, func(m *outageMessage) {
		if m.again = true; requeue {
			p.of.back(m)
		} else {
			p.of.dead = append(p.of.dead, m.id)
		}
	})
}

func (p *outageProc) Reject(tag uint64, requeue bool) error { return p.Nack(tag, false, requeue) }
func (p *outageProc) Qos(int, int, bool) error              { return nil }
func (p *outageProc) Close() error                          { return nil }

func (p *outageProc) Consume(_, tag string, _, _, _, _ bool, _ amqp.Table) (<-chan amqp.Delivery, error) {
	o := p.of
	o.mu.Lock()
	defer o.mu.Unlock()
	p.secondTag, p.second = tag, make(chan amqp.Delivery, 100)
	second := p.second
	o.pump()
	return second, nil
}

func (p *outageProc) Cancel(string, bool) error {
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	if p.second != nil {
		close(p.second)
		p.second = nil
	}
	return nil
}

// end stops the fleet.
func (o *outage) end() {
	o.mu.Lock()
	procs := slices.Clone(o.procs)
	o.mu.Unlock()
	for _, p := range procs {
		p.stop()
	}
}

// until waits until is is true, for a time at most.
func (o *outage) until(most time.Duration, is func() bool) bool {
	for end := time.Now().Add(most); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		o.mu.Lock()
		yes := is()
		o.mu.Unlock()
		if yes {
			return true
		}
	}
	return false
}

// goodDead returns the good messages that were dead-lettered.
func (o *outage) goodDead() (good []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, id := range o.dead {
		if strings.HasPrefix(id, "good") {
			good = append(good, id)
		}
	}
	return good
}

// diedInAnother reports whether the last two failures of a dead message were in different outages.
func (o *outage) diedInAnother(id string, outages []time.Time) bool {
	records, err := o.store.Get(context.Background(), "/", "orders", id)
	if err != nil || len(records) != 1 || len(records[0].History) < 2 {
		return false
	}
	during := func(f counter.AttemptNote) int {
		return len(slices.DeleteFunc(slices.Clone(outages), func(began time.Time) bool { return began.After(f.At) }))
	}
	failures := records[0].History
	last := len(failures) - 1
	return during(failures[last-1]) < during(failures[last])
}

// eachPoison checks that the dead poison was counted as often as the limit says.
func (o *outage) eachPoison(want int) {
	o.t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, id := range o.dead {
		records, _ := o.store.Get(context.Background(), "/", "orders", id)
		if len(records) != 1 || records[0].Counted() != want {
			o.t.Errorf("%s: %+v", id, records)
		}
	}
}

// inOutage runs a test with three processes in a bubble.
func inOutage(t *testing.T, seed uint64, c Consumer, test func(*outage)) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutage(t, seed, c)
		defer o.end()
		for range 3 {
			o.start()
		}
		test(o)
	})
}

// TestOutageOfHalfAnHour: the service that the handlers need is away for 30 minutes. Meanwhile 1,000 messages wait, and
// one a second comes. Without a breaker nearly all are dead after three minutes.
func TestOutageOfHalfAnHour(t *testing.T) {
	for _, tc := range []struct {
		breaker, seconds, most int
	}{{8, 1800, 8}, {0, 180, 1 << 20}} {
		inOutage(t, 1, Consumer{Breaker: tc.breaker}, func(o *outage) {
			o.setAway(true)
			o.publish(numbered("good", 0, 1000)...)
			for i := range tc.seconds {
				o.publish(numbered("good", 1000+i, 1)...)
				time.Sleep(time.Second)
			}
			back := time.Now()
			o.setAway(false)
			dead := len(o.goodDead())
			if tc.breaker == 0 {
				t.Logf("without a breaker: %d of 1180 dead, %d failures counted", dead, o.store.counted.Load())
				if dead < 1100 {
					t.Errorf("%d dead: the schedule is no outage", dead)
				}
				return
			}
			if !o.until(time.Minute, func() bool { return len(o.done) == 2800 }) {
				t.Errorf("%d of 2800 were handled", len(o.done))
			}
			first := time.Hour
			for _, at := range o.done {
				first = min(first, at.Sub(back))
			}
			t.Logf("with a breaker: %d dead, %d failures counted; the first success after %v", dead, o.store.counted.Load(),
				first)
			if dead > 0 || int(o.store.counted.Load()) > tc.most || first > 4*time.Second {
				t.Errorf("%d dead, %d counted, the first success after %v", dead, o.store.counted.Load(), first)
			}
		})
	}
}

// TestOutageOfSlowStore: a report of a success that the store takes late must not look like a later success. In an
// outage of ten minutes every fifth request is taken 8 s late.
func TestOutageOfSlowStore(t *testing.T) {
	inOutage(t, 6, Consumer{Breaker: 8}, func(o *outage) {
		o.publish(numbered("good", 0, 100)...)
		if !o.until(time.Minute, func() bool { return len(o.done) == 100 }) {
			t.Fatalf("%d of 100 were handled", len(o.done))
		}
		time.Sleep(2 * time.Second) // each process has reported its success
		o.setAway(true)
		o.store.stalls.Store(5)
		o.publish(numbered("good", 100, 200)...)
		time.Sleep(10 * time.Minute)
		o.store.stalls.Store(0)
		time.Sleep(10 * time.Second) // all requests have been taken
		o.setAway(false)
		if !o.until(time.Minute, func() bool { return len(o.done) == 300 }) {
			t.Errorf("%d of 300 were handled", len(o.done))
		}
		if dead, counted := len(o.goodDead()), o.store.counted.Load(); dead > 0 || counted > 8 {
			t.Errorf("%d dead, %d counted", dead, counted)
		}
	})
}

// TestOutageOfFewMessages: one message a minute comes in an outage of half an hour.
func TestOutageOfFewMessages(t *testing.T) {
	for _, tc := range []struct {
		patience time.Duration
		most     int
	}{{0, 7}, {2 * time.Hour, 0}} {
		inOutage(t, 2, Consumer{Breaker: 8, Patience: tc.patience}, func(o *outage) {
			o.publish(numbered("good", 0, 1)...)
			time.Sleep(time.Minute)
			o.setAway(true)
			for i := range 30 {
				o.publish(numbered("good", 1+i, 1)...)
				time.Sleep(time.Minute)
			}
			o.setAway(false)
			if !o.until(2*time.Minute, func() bool { return len(o.done)+len(o.dead) == 31 }) {
				t.Errorf("%d of 31 were handled, %d dead", len(o.done), len(o.dead))
			}
			t.Logf("patience %v: %d of 31 dead", tc.patience, len(o.dead))
			if n := len(o.goodDead()); n > tc.most {
				t.Errorf("patience %v: %d dead", tc.patience, n)
			}
		})
	}
}

// TestPoisonOpensNothing: of 100 messages a second 30 always fail. With -outage.seconds 600 it takes a minute and a
// half.
func TestPoisonOpensNothing(t *testing.T) {
	inOutage(t, 3, Consumer{Breaker: 8, Concurrency: 4, Prefetch: 30}, func(o *outage) {
		stops, opens, seconds := 0, 0, *outageSeconds
		rng := rand.New(rand.NewPCG(3, 2))
		for i := range seconds {
			for j := range 100 {
				prefix := "good"
				if rng.IntN(10) < 3 {
					prefix = "poison"
				}
				o.publish(fmt.Sprint(prefix, i*100+j))
				time.Sleep(10 * time.Millisecond)
			}
			b, _ := o.store.Breaker(context.Background(), "/", "orders")
			if !b.Open.IsZero() {
				opens++
			}
			for _, p := range o.procs {
				if find[*breakerRoom](p.s.rooms).gate.Shut() {
					stops++
				}
			}
		}
		o.until(time.Minute, func() bool { return len(o.done)+len(o.dead) == 100*seconds })
		t.Logf("%d handled, %d dead; open in %d of %d s, a process shut in %d", len(o.done), len(o.dead), opens, seconds,
			stops)
		if len(o.done)+len(o.dead) != 100*seconds || len(o.goodDead()) > 0 || opens+stops > 0 {
			t.Errorf("%d handled, %d dead, %d good; open in %d of %d s, a process shut in %d", len(o.done), len(o.dead),
				len(o.goodDead()), opens, seconds, stops)
		}
		o.eachPoison(4)
	})
}

// TestSlotsFull: poison fills all that is prefetched, during an outage and without one.
func TestSlotsFull(t *testing.T) {
	for _, away := range []time.Duration{0, 10 * time.Minute} {
		inOutage(t, 4, Consumer{Breaker: 8}, func(o *outage) {
			o.setAway(away > 0)
			o.publish(numbered("poison", 0, 40)...)
			o.publish(numbered("good", 0, 1000)...)
			time.Sleep(away)
			o.setAway(false)
			back := time.Now()
			if !o.until(5*time.Minute, func() bool { return len(o.done) == 1000 }) {
				t.Errorf("%d of 1000 were handled, %d dead", len(o.done), len(o.dead))
			}
			t.Logf("outage of %v: all handled %v after it, %d of 40 dead", away, time.Since(back), len(o.dead))
			if n := o.goodDead(); len(n) > 0 {
				t.Errorf("dead: %v", n)
			}
		})
	}
}

// lateWire replies to basic.consume later than a session waits.
type lateWire struct{ wire }

func (w lateWire) Consume(queue, tag string, autoAck, exclusive, noLocal, noWait bool,
	args amqp.Table) (<-chan amqp.Delivery, error) {
	time.Sleep(openTimeout + 2*time.Second)
	return w.wire.Consume(queue, tag, autoAck, exclusive, noLocal, noWait, args)
}

// TestFetchUnanswered: a consumer that the broker accepts too late gets messages that are not taken, so the session
// ends.
func TestFetchUnanswered(t *testing.T) {
	inOutage(t, 7, Consumer{Breaker: 8}, func(o *outage) {
		for _, p := range o.procs {
			p.s.link.channel = lateWire{p}
		}
		o.setAway(true)
		o.publish(numbered("good", 0, 200)...)
		time.Sleep(time.Minute)
		ended := 0
		for _, p := range o.procs {
			select {
			case err := <-p.s.ended:
				ended++
				if !strings.Contains(err.Error(), "beyond the prefetch") {
					t.Error(err)
				}
			default:
			}
		}
		if ended == 0 {
			t.Error("all sessions go on")
		}
	})
}

// TestOneBadProcess: one process of three fails everything, for a minute. It may kill the messages of its first seven
// failures, if it gets the same message four times.
func TestOneBadProcess(t *testing.T) {
	inOutage(t, 5, Consumer{Breaker: 8}, func(o *outage) {
		o.procs[1].bad = true
		for i := range 1200 {
			o.publish(numbered("good", i, 1)...)
			time.Sleep(50 * time.Millisecond)
		}
		o.mu.Lock()
		o.procs[1].bad = false
		o.mu.Unlock()
		o.until(time.Minute, func() bool { return len(o.done)+len(o.dead) == 1200 })
		t.Logf("%d handled, %d dead", len(o.done), len(o.dead))
		if len(o.done)+len(o.dead) != 1200 || len(o.dead) > 7 {
			t.Errorf("%d of 1200 were handled, %d are dead", len(o.done), len(o.dead))
		}
	})
}

// TestOutageSchedules plays random schedules: outages, poison, kills, lost replies and outages of the store. The bound
// of good messages that die, seven for each outage, holds in each. With Patience one dies only if its last attempt
// fails in a later outage than the one before; no message is lost, and all goes on in the end.
func TestOutageSchedules(t *testing.T) {
	rows := map[bool][2]int{} // with Patience: schedules, and those in which a good message died
	defer func() {
		t.Logf("without Patience: %d schedules, in %d a good message died; with it: %d, in %d", rows[false][0],
			rows[false][1], rows[true][0], rows[true][1])
	}()
	for n := range *outageSchedules {
		seed := uint64(1000 + n)
		inOutage(t, seed, Consumer{Breaker: 8, Patience: time.Duration(n%2) * 10 * time.Hour}, func(o *outage) {
			rng := rand.New(rand.NewPCG(seed, 2))
			poison, published := rng.IntN(8), 0
			if rng.IntN(2) == 0 {
				o.store.loses.Store(int64(5 + rng.IntN(30)))
			}
			awayFor, storeFor, outages := 0, 0, []time.Time{} // outages: when each began
			for second := range 600 {
				switch {
				case awayFor == 0 && rng.IntN(120) == 0:
					awayFor = 10 + rng.IntN(120)
					outages = append(outages, time.Now())
					o.setAway(true)
				case awayFor > 0:
					if awayFor--; awayFor == 0 {
						o.setAway(false)
					}
				}
				switch {
				case storeFor == 0 && rng.IntN(200) == 0:
					storeFor = 1 + rng.IntN(20)
					o.store.down.Store(true)
				case storeFor > 0:
					if storeFor--; storeFor == 0 {
						o.store.down.Store(false)
					}
				}
				if rng.IntN(100) == 0 {
					o.kill(o.procs[rng.IntN(len(o.procs))])
					o.start()
				}
				for range rng.IntN(20) {
					prefix := "good"
					if rng.IntN(100) < poison {
						prefix = "poison"
					}
					o.publish(fmt.Sprint(prefix, second, ".", published))
					published++
				}
				time.Sleep(time.Second)
			}
			o.setAway(false)
			o.store.down.Store(false)
			o.store.loses.Store(0)
			goods := 0 // so that the poison does not remain alone
			if !o.until(5*time.Minute, func() bool {
				left := len(o.ready)
				for _, p := range o.procs {
					left += len(p.held)
				}
				if goods++; goods%20 == 0 {
					o.seq++
					o.ready = append(o.ready, &outageMessage{id: fmt.Sprint("good", "last", goods), seq: o.seq})
					o.pump()
				}
				return left == 0
			}) {
				t.Errorf("seed %d: the queue did not drain: %d ready", seed, len(o.ready))
			}
			dead := o.goodDead()
			died := len(dead) > 0
			if most := 7 * len(outages); len(dead) > most {
				t.Errorf("seed %d: %d good messages are dead in %d outages: %v", seed, len(dead), len(outages), dead)
			}
			if o.c.Patience > 0 {
				dead = slices.DeleteFunc(dead, func(id string) bool { return o.diedInAnother(id, outages) })
				if len(dead) > 0 {
					t.Errorf("seed %d: with Patience, these died by one outage: %v", seed, dead)
				}
			}
			row := rows[o.c.Patience > 0]
			if row[0]++; died {
				row[1]++
			}
			rows[o.c.Patience > 0] = row
		})
	}
}

func TestBreakerIsValidated(t *testing.T) {
	wantValid(t, Consumer{Breaker: 8, Patience: time.Minute})
	wantRefused(t, map[string]Consumer{"Patience": {Patience: 1}})
}
