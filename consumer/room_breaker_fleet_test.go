package consumer

import (
	"cmp"
	"context"
	"errors"
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
	"github.com/strikesmq/strikes/counter/rules"
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
	silent  atomic.Bool  // about the breaker
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
func (s *outageStore) late(p *rules.Progress) {
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

func (s *outageStore) Start(ctx context.Context, a counter.Attempt, mode rules.Mode, limit int) (counter.Reply,
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
	if _, known := s.seen.LoadOrStore(a.Token, true); !known && err == nil && r.Code != rules.ReplyUncounted &&
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

func (s *outageStore) AskBreaker(ctx context.Context, vhost, queue string, p rules.Progress) (counter.BreakerState,
	error) {
	if s.down.Load() || s.silent.Load() {
		return counter.BreakerState{}, errDown
	}
	s.late(&p)
	b, err := s.Memory.AskBreaker(context.WithoutCancel(ctx), vhost, queue, p)
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
	p.s.prepare(ctx, ctx)
	var beside sync.WaitGroup
	for _, r := range p.s.rooms {
		beside.Go(func() { r.beside(ctx) })
	}
	if r := find[*breakerRoom](p.s.rooms); r != nil {
		beside.Go(func() {
			_ = r.around(ctx, nil, func(ctx context.Context) error { <-ctx.Done(); return nil })
		})
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
	during := func(f rules.AttemptNote) int {
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
