package consumer

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/counter"
)

// mute is a store whose replies to START isolated and END are lost while it is on. The steps are taken.
type mute struct {
	*store
	on atomic.Bool
}

func (m *mute) Start(ctx context.Context, a counter.Attempt, mode counter.Mode, limit int) (counter.Reply, error) {
	answer, err := m.store.Start(ctx, a, mode, limit)
	return answer, errors.Join(err, m.lost(ctx, mode == counter.ModeIsolated))
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
	need(t, errOf(s.Memory.Start(t.Context(), m, counter.ModeShared, 4)))
}

// gated is a session of one worker on a store that may be mute, fed through its channel.
type gated struct {
	bench
	store      *mute
	deliveries chan amqp.Delivery
	ran        chan string // ids, as their handlers run
	ended      chan error
	tags       uint64
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

// TestGate has START isolated of a healthy message go unanswered. While it may be open in the store, no message runs
// that may kill the process: that would count against the healthy one.
func TestGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGated(t, Consumer{})
		for _, id := range []string{"healthy", "killer"} {
			g.store.suspect(t, id)
		}
		g.store.on.Store(true)
		g.deliver("healthy", true)
		time.Sleep(time.Second)
		g.deliver("first", false)
		if got := g.handled(); got != "" {
			t.Errorf("%sran while the lock is held for START isolated", got)
		}
		time.Sleep(lockedPatience)
		if got := g.handled(); got != "first " {
			t.Errorf("%q ran once the lock was released; want the first delivery", got)
		}
		steps := g.store.steps.Load()
		g.deliver("killer", true)
		g.deliver("redelivered", true)
		g.deliver("second", false)
		time.Sleep(time.Minute)
		if got := g.handled(); got != "second " {
			t.Errorf("%q ran while the gate was shut; want the first delivery", got)
		}
		if n := g.store.steps.Load() - steps; n == 0 || n > 100 {
			t.Errorf("%d steps in a minute: END is to be repeated, without a spin", n)
		}
		for _, id := range []string{"killer", "redelivered"} {
			records, err := g.store.Get(t.Context(), "/", "orders", id)
			if err != nil || len(records) > 0 && records[0].Suspect {
				t.Errorf("START of %s was sent while the gate was shut: %+v, %v", id, records, err)
			}
		}
		g.store.on.Store(false)
		time.Sleep(5 * time.Second)
		if got := g.handled(); len(got) != len("healthy killer redelivered ") {
			t.Errorf("%q ran once END was answered; want all", got)
		}
		records, err := g.store.Get(t.Context(), "/", "orders", "healthy")
		if err != nil || len(records) != 1 || records[0].Crashes != 0 || records[0].State != counter.StateDone {
			t.Errorf("%+v, %v", records, err)
		}
	})
}

// TestGateHoldsWhatWasStarted has an attempt wait at the isolation lock, let run by START, when the gate is shut.
func TestGateHoldsWhatWasStarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGated(t, Consumer{Concurrency: 2})
		g.store.suspect(t, "healthy")
		g.store.on.Store(true)
		g.deliver("healthy", true)
		time.Sleep(time.Second)
		g.deliver("started", true) // START shared is answered
		time.Sleep(20 * time.Second)
		if got := g.handled(); got != "" {
			t.Errorf("%sran behind a shut gate", got)
		}
		g.store.on.Store(false)
		time.Sleep(5 * time.Second)
		if got := g.handled(); len(got) != len("healthy started ") {
			t.Errorf("%q ran; want both", got)
		}
	})
}

// TestGateOpensAfterItsSession has a session stopped while its attempt is undecided. The gate stays shut until END is
// answered.
func TestGateOpensAfterItsSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		b.isolation, b.Observer = newIsolation(), nil
		store := &mute{store: b.store}
		b.Counter = store
		b.store.suspect(t, "m1")
		store.on.Store(true)
		ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
		defer stop()
		if outcome, err := b.Handle(ctx, b.delivery(true), ok); outcome != OutcomeLeave || err != nil {
			t.Fatalf("%v, %v", outcome, err)
		}
		if b.isolation.gate.opened() == nil {
			t.Error("the gate is open, and END was not answered")
		}
		store.on.Store(false)
		if outcome, err := b.Handle(t.Context(), b.delivery(true), ok); outcome != OutcomeAck || err != nil {
			t.Errorf("%v, %v", outcome, err)
		}
		b.expect(t, "ack multiple=false", `"done" 0+0 marked false`)
	})
}

// TestSuspectsOutliveAnOutage has many suspects wait for one another through an outage and longer: that is no reason to
// end the session.
func TestSuspectsOutliveAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGated(t, Consumer{Prefetch: 20, Handler: func(context.Context, amqp.Delivery) error {
			time.Sleep(time.Minute)
			return nil
		}})
		for i := range 20 {
			id := fmt.Sprint("m", i)
			g.store.suspect(t, id)
			g.deliver(id, true)
		}
		g.store.down.Store(true)
		time.Sleep(time.Minute)
		g.store.down.Store(false)
		time.Sleep(time.Hour)
		select {
		case err := <-g.ended:
			t.Errorf("the session ended: %v", err)
		default:
		}
		if g.acks.String() == "" {
			t.Error("nothing was settled")
		}
	})
}

// TestIsolatedBesideAnAbandonedHandler has a suspect run while a handler that was abandoned at its deadline still does:
// a death of the process proves nothing against the suspect.
func TestIsolatedBesideAnAbandonedHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		b.isolation, b.Observer, b.HandlerTimeout = newIsolation(), nil, time.Second
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
		open := func() (mode counter.Mode) {
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
		if got := open(); got != counter.ModeShared {
			t.Errorf("opened %v beside an abandoned handler", got)
		}
		close(release)
		synctest.Wait()
		if got := open(); got != counter.ModeIsolated {
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

// TestARefusedStepShutsNoGate: a store that refuses START has opened nothing.
func TestARefusedStepShutsNoGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		b.isolation, b.Observer = newIsolation(), nil
		b.store.suspect(t, "m1")
		b.Counter = refusingStore{b.store}
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		if outcome, err := b.Handle(ctx, b.delivery(true), ok); outcome != OutcomeLeave || err != nil {
			t.Errorf("%v, %v", outcome, err)
		}
		if b.isolation.gate.opened() != nil || !b.isolation.undecided.TryAcquire(1) {
			t.Error("the gate is shut for what the store refused")
		}
	})
}

type refusingStore struct{ *store }

func (refusingStore) Start(context.Context, counter.Attempt, counter.Mode, int) (counter.Reply, error) {
	return counter.Reply{}, fmt.Errorf("start: %w", counter.ErrForeign)
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
			_, err := served(ctx, b, Consumer{Handler: hang, DrainTimeout: -1}, n)
			return err
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

// slow has each START and BEGUN reply late.
type slow struct {
	*store
	by time.Duration
}

func (l slow) Start(ctx context.Context, a counter.Attempt, mode counter.Mode, limit int) (counter.Reply, error) {
	reply, err := l.store.Start(ctx, a, mode, limit)
	return reply, errors.Join(err, l.reply(ctx))
}

func (l slow) Begun(ctx context.Context, a counter.Attempt) (counter.Reply, error) {
	reply, err := l.store.Begun(ctx, a)
	return reply, errors.Join(err, l.reply(ctx))
}

func (l slow) reply(ctx context.Context) error {
	select {
	case <-time.After(l.by):
		return nil
	case <-ctx.Done():
		return errDown
	}
}

// TestSuspectOnASlowStore: a store that takes almost a second for a reply is no reason not to attempt a suspect.
func TestSuspectOnASlowStore(t *testing.T) {
	for _, by := range []time.Duration{200 * time.Millisecond, 400 * time.Millisecond, 900 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			b := newBench()
			b.isolation, b.Counter = newIsolation(), slow{b.store, by}
			b.store.suspect(t, "m1")
			began := time.Now()
			outcome, err := b.Handle(t.Context(), b.delivery(true), ok)
			if took := time.Since(began); outcome != OutcomeAck || err != nil || took > 6*time.Second {
				t.Errorf("%v: %v, %v after %v", by, outcome, err, took)
			}
		})
	}
}
