package consumer

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/internal/servertest"
)

var (
	outageSchedules = flag.Int("outage.n", 2, "random schedules of TestOutageSchedules; 40 in .ci/run long")
	outageSeconds   = flag.Int("outage.seconds", 20, "of TestPoisonOpensNothing; 120 in .ci/run long")
)

// TestOutageOfHalfAnHour: the service that the handlers need is away for 30 minutes. Meanwhile 1,000 messages wait, and
// one a second comes. Without a breaker nearly all are dead after three minutes.
func TestOutageOfHalfAnHour(t *testing.T) {
	servertest.Long(t)
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
		dead, counted := len(o.goodDead()), o.store.counted.Load()
		t.Logf("%d dead, %d failures counted", dead, counted)
		if dead > 0 || counted > 8 {
			t.Errorf("%d dead, %d counted", dead, counted)
		}
	})
}

// TestOutageOfDeafProcess: every third reply of the store is lost, which is always that to the same of three processes.
// It takes no permit away from the others, which close the breaker. Its own messages wait until it hears of that.
func TestOutageOfDeafProcess(t *testing.T) {
	inOutage(t, 3, Consumer{Breaker: 8}, func(o *outage) {
		o.setAway(true)
		o.store.loses.Store(3)
		o.publish(numbered("good", 0, 20)...)
		time.Sleep(2 * time.Minute)
		o.setAway(false)
		time.Sleep(30 * time.Second)
		o.store.loses.Store(0)
		now, err := o.store.State(t.Context(), "/", "orders")
		if need(t, err); now.Breaker.Stops() {
			t.Errorf("the breaker is not closed: %+v", now.Breaker)
		}
		if !o.until(5*time.Second, func() bool { return len(o.done) == 20 }) {
			t.Errorf("%d of 20 were handled", len(o.done))
		}
	})
}

// TestOutageWithResumes: an operator who closes the breaker during the outage costs one counted failure each time,
// though all messages have failed before.
func TestOutageWithResumes(t *testing.T) {
	for _, messages := range []int{8, 30} {
		inOutage(t, 7, Consumer{Breaker: 8}, func(o *outage) {
			o.setAway(true)
			o.publish(numbered("good", 0, messages)...)
			for range 2 {
				time.Sleep(30 * time.Second)
				need(t, errOf(o.store.Admin().ResumeBreaker(t.Context(), "/", "orders", 0)))
			}
			time.Sleep(30 * time.Second)
			o.setAway(false)
			if !o.until(time.Minute, func() bool { return len(o.done) == messages }) {
				t.Errorf("%d of %d were handled", len(o.done), messages)
			}
			if dead, counted := len(o.goodDead()), o.store.counted.Load(); dead > 0 || counted > 8+2 {
				t.Errorf("%d of %d dead, %d counted", dead, messages, counted)
			}
		})
	}
}

// TestOutageOfFewMessages: one message a minute comes in an outage of half an hour.
func TestOutageOfFewMessages(t *testing.T) {
	servertest.Long(t)
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
			now, _ := o.store.State(context.Background(), "/", "orders")
			if !now.Breaker.Open.IsZero() {
				opens++
			}
			for _, p := range o.procs {
				if find[*breakerRoom](p.s.rooms).gate.shut.Load() {
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

// TestPatienceBlocksNoQueue: messages that always fail fill all that is prefetched, and each waits there for a success
// before its last attempt. The good ones behind them succeed.
func TestPatienceBlocksNoQueue(t *testing.T) {
	servertest.Long(t)
	for seed := range uint64(5) {
		inOutage(t, seed, Consumer{Breaker: 8, Patience: 2 * time.Hour}, func(o *outage) {
			good, rng := 0, rand.New(rand.NewPCG(seed, 3))
			for i := range 600 {
				if i < 200 && rng.IntN(10) < 6 {
					o.publish(numbered("poison", i, 1)...)
				} else {
					o.publish(numbered("good", i, 1)...)
					good++
				}
			}
			if !o.until(10*time.Minute, func() bool { return len(o.done) == good }) {
				t.Errorf("seed %d: %d of %d good messages were handled", seed, len(o.done), good)
			}
		})
	}
}

// TestBlindGate: the store replies to steps, but not to reads of the open breaker. After a while each first delivery
// begins once.
func TestBlindGate(t *testing.T) {
	inOutage(t, 8, Consumer{Breaker: 8}, func(o *outage) {
		o.setAway(true)
		o.publish(numbered("good", 0, 400)...)
		time.Sleep(time.Minute)
		o.store.silent.Store(true)
		time.Sleep(5 * time.Second) // what its last permit let begin has ended
		o.mu.Lock()
		before := maps.Clone(o.runs)
		o.mu.Unlock()
		time.Sleep(time.Minute)
		o.mu.Lock()
		defer o.mu.Unlock()
		for id, n := range o.runs {
			if n > before[id]+1 {
				t.Errorf("%s was attempted %d times, want once", id, n-before[id])
			}
		}
	})
}

// TestCarefulSessionFetchesNothing: such a session prefetches one message, because an undecodable one returns all
// others.
func TestCarefulSessionFetchesNothing(t *testing.T) {
	b := newBench()
	s := b.session(Consumer{Breaker: 8, Handler: ok})
	s.beCareful()
	need(t, find[*breakerRoom](s.rooms).fresh(t.Context(), nil)) // else it waits for serve to take them
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

// deafWire is the channel of a lost connection: amqp091-go closes the deliveries.
type deafWire struct{ quietWire }

func (w deafWire) Consume(string, string, bool, bool, bool, bool, amqp.Table) (<-chan amqp.Delivery, error) {
	lost := make(chan amqp.Delivery)
	close(lost)
	return lost, nil
}

// TestALostConnectionEndsAFetch: there is no consumer left to cancel.
func TestALostConnectionEndsAFetch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		s := b.session(Consumer{Breaker: 8, Handler: ok})
		var calls []string
		s.link = &link{channel: deafWire{quietWire{&calls}}}
		began := time.Now()
		need(t, find[*breakerRoom](s.rooms).fresh(t.Context(), make(chan struct{})))
		if waited := time.Since(began); waited > 0 || len(calls) > 0 {
			t.Errorf("it ended after %v, with calls of %v", waited, calls)
		}
	})
}

// secondWire brings messages to a second consumer, until that is cancelled.
type secondWire struct {
	quietWire
	second chan amqp.Delivery
}

func (w secondWire) Consume(string, string, bool, bool, bool, bool, amqp.Table) (<-chan amqp.Delivery, error) {
	return w.second, nil
}

func (w secondWire) Cancel(tag string, _ bool) error {
	if tag != "" { // that of the first consumer is empty
		close(w.second)
	}
	return nil
}

// TestADroppedFreshMessageComesAgain: amqp091-go drops a message that comes after the second consumer was cancelled. It
// is the third here. Another session begins once the fourth shows the gap, and no sooner.
func TestADroppedFreshMessageComesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		b.Observer = nil
		s := b.session(Consumer{Breaker: 8, Handler: ok, Prefetch: 10})
		defer s.rooms.close()
		deliveries, second := make(chan amqp.Delivery), make(chan amqp.Delivery)
		deliver := func(to chan<- amqp.Delivery, tag uint64) {
			d := b.delivery(false)
			d.DeliveryTag = tag
			to <- d
			synctest.Wait()
		}
		ended := make(chan bool, 1)
		var calls []string
		go func() {
			again, err := s.amidRooms(t.Context(), nil, func(ctx context.Context) error {
				return s.serve(ctx, &link{channel: secondWire{quietWire{&calls}, second}, deliveries: deliveries})
			})
			need(t, err)
			ended <- again
		}()
		synctest.Wait()
		calm := make(chan struct{})
		go func() { need(t, find[*breakerRoom](s.rooms).fresh(t.Context(), calm)) }()
		synctest.Wait()
		deliver(deliveries, 2)
		deliver(second, 1)
		close(calm)
		synctest.Wait()
		if len(ended) > 0 {
			t.Error("the session ended before a message was missing")
		}
		deliver(deliveries, 4)
		select {
		case again := <-ended:
			if !again {
				t.Error("no other session begins")
			}
		case <-time.After(time.Minute):
			t.Fatal("the session goes on without the third message")
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
