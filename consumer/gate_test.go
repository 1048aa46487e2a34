package consumer

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/counter/rules"
)

// mute is a store whose replies to START isolated and END are lost while it is on. The steps are taken.
type mute struct {
	*store
	on atomic.Bool
}

func (m *mute) Start(ctx context.Context, a counter.Attempt, mode rules.Mode, limit int) (counter.Reply, error) {
	answer, err := m.store.Start(ctx, a, mode, limit)
	return answer, errors.Join(err, m.lost(ctx, mode == rules.ModeIsolated))
}

func (m *mute) End(ctx context.Context, a counter.Attempt, succeeded bool) error {
	return errors.Join(m.store.End(ctx, a, succeeded), m.lost(ctx, true))
}

func (m *mute) lost(ctx context.Context, affected bool) error {
	if !affected || !m.on.Load() {
		return nil
	}
	<-ctx.Done()
	return errDown
}

// suspect leaves a shared attempt open, as a process does that dies.
func (s *store) suspect(t *testing.T, id string) {
	t.Helper()
	m := counter.Attempt{Message: counter.Message{VHost: "/", Queue: "orders", ID: id}, Token: "died-" + id}
	need(t, errOf(s.Memory.Start(t.Context(), m, rules.ModeShared, 4)))
}

// gated is a session of one worker on a store that may be mute, fed through its channel.
type gated struct {
	bench
	store      *mute
	deliveries chan amqp.Delivery
	ran        chan string // ids, as their handlers run
	ended      chan error
	tags       uint64
	stop       func()
}

func newGated(t *testing.T, c Consumer, settings ...func(*Consumer)) *gated {
	t.Helper()
	g := &gated{bench: newBench(), deliveries: make(chan amqp.Delivery, 20), ran: make(chan string, 100),
		ended: make(chan error, 1)}
	g.store = &mute{store: g.bench.store}
	g.isolation, g.Observer, g.Counter = newIsolation(), nil, g.store
	for _, set := range settings {
		set(g.Consumer)
	}
	if c.Handler == nil {
		c.Handler = func(_ context.Context, d amqp.Delivery) error { g.ran <- d.MessageId; return nil }
	}
	ctx, stop := context.WithCancel(context.Background())
	g.stop = stop
	var calls []string
	go func() {
		g.ended <- g.session(c).serve(ctx, &link{channel: quietWire{&calls}, deliveries: g.deliveries})
	}()
	t.Cleanup(func() {
		stop()
		synctest.Wait()
	})
	return g
}

func (g *gated) deliver(id string, redelivered bool) {
	g.tags++
	g.deliveries <- amqp.Delivery{Acknowledger: g.acks, DeliveryTag: g.tags, MessageId: id, Redelivered: redelivered}
}

// handled returns the ids whose handlers have run since it was asked last.
func (g *gated) handled() string {
	synctest.Wait()
	out := ""
	for {
		select {
		case id := <-g.ran:
			out += id + " "
		default:
			return out
		}
	}
}

// TestIsolatedBesideAnAbandonedHandler has a suspect run while a handler that was abandoned at its deadline still does:
// a death of the process proves nothing against the suspect.
func TestIsolatedBesideAnAbandonedHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		b.isolation, b.Observer, b.HandlerTimeout = newIsolation(), nil, time.Second
		slow := b.delivery(false)
		slow.MessageId = "slow"
		if outcome, err := b.Handle(t.Context(), slow, func(ctx context.Context, _ amqp.Delivery) error {
			<-ctx.Done()
			time.Sleep(abandonAfter / 2) // so it is not abandoned
			return nil
		}); outcome != OutcomeAck || err != nil {
			t.Fatalf("%v, %v", outcome, err)
		}
		time.Sleep(abandonAfter)
		release := make(chan struct{})
		deaf := b.delivery(false)
		deaf.MessageId = "deaf"
		if outcome, err := b.Handle(t.Context(), deaf, func(context.Context, amqp.Delivery) error {
			<-release
			return nil
		}); outcome != OutcomeRequeue || err != nil {
			t.Fatalf("%v, %v", outcome, err)
		}
		b.store.suspect(t, "m1")
		open := func() (mode rules.Mode) {
			outcome, err := b.Handle(t.Context(), b.delivery(true), func(context.Context, amqp.Delivery) error {
				records, err := b.store.Get(t.Context(), "/", "orders", "m1")
				if err != nil || len(records) != 1 || records[0].OpenToken == "" {
					t.Errorf("%+v, %v", records, err)
				}
				mode = records[0].OpenMode
				return errBoom
			})
			if outcome != OutcomeRequeue || err != nil {
				t.Errorf("%v, %v", outcome, err)
			}
			return mode
		}
		if got := open(); got != rules.ModeShared {
			t.Errorf("opened %v beside an abandoned handler", got)
		}
		close(release)
		synctest.Wait()
		if got := open(); got != rules.ModeIsolated {
			t.Errorf("opened %v with nothing beside it", got)
		}
	})
}

// TestAcksGoOutBeforeAnIsolatedAttempt: if that kills the process, the messages that were handled before it would be
// handled again.
func TestAcksGoOutBeforeAnIsolatedAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g *gated
		release, before := make(chan struct{}), ""
		g = newGated(t, Consumer{Prefetch: 30, Concurrency: 3, Handler: func(_ context.Context, d amqp.Delivery) error {
			switch d.MessageId {
			case "slow":
				<-release
			case "suspect":
				before = g.acks.String()
			}
			return nil
		}})
		g.store.suspect(t, "suspect")
		g.deliver("slow", false)
		g.deliver("handled", false)
		synctest.Wait() // it is decided, and waits for the first
		g.deliver("suspect", true)
		synctest.Wait()
		close(release)
		synctest.Wait()
		if before == "" {
			t.Errorf("settled before the isolated attempt: %q", before)
		}
	})
}

// slowAck is a channel whose next ack is under way until release is closed.
type slowAck struct {
	*channel
	release chan struct{}
}

func (s slowAck) Ack(tag uint64, multiple bool) error {
	<-s.release
	return s.channel.Ack(tag, multiple)
}

// TestAcksUnderWayGoOutBeforeAnIsolatedAttempt: an ack that another goroutine sends is awaited too.
func TestAcksUnderWayGoOutBeforeAnIsolatedAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before := "not called"
		var g *gated
		g = newGated(t, Consumer{Prefetch: 1, Concurrency: 2, Handler: func(_ context.Context, d amqp.Delivery) error {
			if d.MessageId == "suspect" {
				before = g.acks.String()
			}
			return nil
		}})
		g.store.suspect(t, "suspect")
		handled := g.delivery(false)
		slow := slowAck{g.acks, make(chan struct{})}
		handled.MessageId, handled.Acknowledger = "handled", slow
		g.tags++
		g.deliveries <- handled
		synctest.Wait()
		g.deliver("suspect", true)
		synctest.Wait()
		if before != "not called" {
			t.Errorf("the isolated attempt began after %q", before)
		}
		close(slow.release)
		if synctest.Wait(); before != "ack multiple=false" {
			t.Errorf("the isolated attempt: %q", before)
		}
	})
}

// TestStopBeforeAnIsolatedAttempt: a session that ends while acks are awaited begins no attempt.
func TestStopBeforeAnIsolatedAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGated(t, Consumer{Prefetch: 1, Concurrency: 2})
		g.store.suspect(t, "suspect")
		slow := slowAck{g.acks, make(chan struct{})}
		g.tags++
		g.deliveries <- amqp.Delivery{Acknowledger: slow, DeliveryTag: g.tags, MessageId: "handled"}
		synctest.Wait()
		g.deliver("suspect", true)
		synctest.Wait()
		before := g.store.steps.Load()
		g.stop()
		synctest.Wait()
		if n := g.store.steps.Load() - before; n > 0 {
			t.Errorf("%d steps for an attempt that could not run", n)
		}
		close(slow.release)
	})
}

// foreign is a store in which another program overwrites the record of each attempt that runs, until it is repaired.
type foreign struct {
	*mute
	repaired *atomic.Bool
}

func (f foreign) End(ctx context.Context, a counter.Attempt, succeeded bool) error {
	if !f.repaired.Load() {
		return counter.ErrForeign
	}
	return f.mute.End(ctx, a, succeeded)
}

// TestForeignRecordDecides: an isolated attempt whose record another program overwrote counts no crash any more. So it
// neither shuts the gate nor keeps other messages from being isolated.
func TestForeignRecordDecides(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		repaired := new(atomic.Bool)
		g := newGated(t, Consumer{}, func(c *Consumer) { c.Counter = foreign{c.Counter.(*mute), repaired} })
		g.store.suspect(t, "m1")
		g.store.suspect(t, "m2")
		for _, id := range []string{"m1", "m2"} {
			g.deliver(id, true)
			synctest.Wait()
			if got := len(g.ran); got != 1 || <-g.ran != id {
				t.Errorf("%s: %d attempts", id, got)
			}
		}
		if g.isolation.gate.opened() != nil {
			t.Error("the gate is shut")
		}
		repaired.Store(true)
		time.Sleep(5 * time.Second) // each END is sent again
	})
}

// stopping is a store during whose reply to START isolated the consumer is stopped.
type stopping struct {
	*store
	stop  func()
	begun atomic.Int64
}

func (s *stopping) Start(ctx context.Context, a counter.Attempt, mode rules.Mode, limit int) (counter.Reply, error) {
	reply, err := s.store.Start(ctx, a, mode, limit)
	if mode == rules.ModeIsolated {
		s.stop()
	}
	return reply, err
}

func (s *stopping) Begun(ctx context.Context, a counter.Attempt) (counter.Reply, error) {
	s.begun.Add(1)
	return s.store.Begun(ctx, a)
}

// TestStopBeforeBegun: a process that is killed during its stop counts no crash for a handler that it did not call.
func TestStopBeforeBegun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		ctx, stop := context.WithCancel(t.Context())
		store := &stopping{store: b.store, stop: stop}
		b.isolation, b.Observer, b.Counter = newIsolation(), nil, store
		b.store.suspect(t, "m1")
		called := false
		outcome, err := b.Handle(ctx, b.delivery(true), func(context.Context, amqp.Delivery) error {
			called = true
			return nil
		})
		if outcome != OutcomeLeave || err != nil || called || store.begun.Load() > 0 {
			t.Errorf("%v, %v, called %v, %d BEGUN", outcome, err, called, store.begun.Load())
		}
		b.expect(t, "", `"" 0+0 marked false`)
	})
}

// TestGateShutsWhenASessionEndsUnderTheLock has the closing END go unanswered after a stop: the lock is released, the
// gate shut.
func TestGateShutsWhenASessionEndsUnderTheLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		b.isolation, b.Observer = newIsolation(), nil
		store := &mute{store: b.store}
		b.Counter = store
		b.store.suspect(t, "m1")
		ctx, stop := context.WithCancel(t.Context())
		outcome, err := b.Handle(ctx, b.delivery(true), func(ctx context.Context, _ amqp.Delivery) error {
			store.on.Store(true)
			stop()
			return ctx.Err()
		})
		if outcome != OutcomeLeave || err != nil {
			t.Fatalf("%v, %v", outcome, err)
		}
		if b.isolation.gate.opened() == nil {
			t.Error("the gate is open, and END was not answered")
		}
		store.on.Store(false)
		time.Sleep(10 * time.Second)
		if b.isolation.gate.opened() != nil || !b.isolation.undecided.TryAcquire(1) {
			t.Error("the gate is shut, and END was answered")
		}
	})
}

// TestStuckHandlersAreOfTheProcess has handlers hang in one session after the other.
func TestStuckHandlersAreOfTheProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		b.isolation = newIsolation()
		b.isolation.abandoned.Add(mostStuck - 2)
		release := make(chan struct{})
		hang := func(context.Context, amqp.Delivery) error { <-release; return nil }
		begin := func(n int) error {
			ctx, stop := context.WithTimeout(t.Context(), 6*time.Minute)
			defer stop()
			return errOf(served(ctx, b, Consumer{Handler: hang, DrainTimeout: -1}, n))
		}
		if err := begin(1); errors.Is(err, ErrStuck) {
			t.Errorf("nine handlers hang, of ten that may not: %v", err)
		}
		if err := begin(1); !errors.Is(err, ErrStuck) {
			t.Errorf("the second session ended with %v; want ErrStuck", err)
		}
		close(release)
	})
}

// TestDeliveryThatWaitedTooLongIsHandedOn: a delivery waits behind a handler for half the consumer timeout.
func TestDeliveryThatWaitedTooLongIsHandedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGated(t, Consumer{Handler: func(_ context.Context, d amqp.Delivery) error {
			if d.MessageId != "slow" {
				t.Errorf("%s was handled", d.MessageId)
			}
			time.Sleep(16 * time.Minute)
			return nil
		}}, func(c *Consumer) { c.HandlerTimeout = -1 })
		g.deliver("slow", false)
		g.deliver("m1", false)
		time.Sleep(17 * time.Minute)
		g.expect(t, "ack multiple=false, nack requeue=true", "none")
	})
}
