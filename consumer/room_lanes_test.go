package consumer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/consumer/internal/lanes"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/counter/rules"
	"github.com/strikesmq/strikes/internal/broker"
)

func TestDecideLane(t *testing.T) {
	for _, tc := range []struct {
		act  rules.LaneAct
		code rules.LaneCode
		want step
	}{
		{rules.LaneEnter, rules.LaneFree, stepReceived},
		{rules.LaneEnter, rules.LaneRun, stepReceived},
		{rules.LaneEnter, rules.LaneBlocked, stepDeadLetter},
		{rules.LaneEnter, rules.LaneSuperseded, stepAck},
		{rules.LaneEnter, rules.LaneUnowned, stepLeave},
		{rules.LaneEnter, rules.LaneUnknown, stepLeave},
		{rules.LaneBlock, rules.LaneBlocked, stepDeadLetter},
		{rules.LaneBlock, rules.LaneSuperseded, stepDeadLetter},
		{rules.LaneBlock, rules.LaneUnowned, stepLeave},
		{rules.LaneLeave, rules.LaneFree, stepAck},
		{rules.LaneLeave, rules.LaneBlocked, stepAck},
		{rules.LaneLeave, rules.LaneSuperseded, stepAck},
		{rules.LaneLeave, rules.LaneUnknown, stepLeave},
	} {
		if got := decideLane(tc.act, tc.code); got != tc.want {
			t.Errorf("%v, code %d: got %d, want %d", tc.act, tc.code, got, tc.want)
		}
	}
}

// held is a store in which message m1 holds a lane.
func held(t *testing.T, lane string) *counter.Memory {
	t.Helper()
	store := counter.NewMemory(nil)
	holdLane(t, store, lane)
	return store
}

// holdLane has message m1 hold a lane of a store without an owner.
func holdLane(t *testing.T, store *counter.Memory, lane string) {
	t.Helper()
	blockLane(t, store, "orders", lane)
}

// blockLane has message m1 block a lane of a queue without an owner.
func blockLane(t *testing.T, store *counter.Memory, queue, lane string) {
	t.Helper()
	need(t, errOf(store.OwnLanes(t.Context(), "/", queue, "", "owner")))
	reply, err := store.StepLane(t.Context(), rules.LaneStep{
		Message: counter.Message{VHost: "/", Queue: queue, ID: "m1"}, Lane: lane, Act: rules.LaneBlock, Owner: "owner",
		Number: 1,
	})
	if err != nil || reply.Code != rules.LaneBlocked {
		t.Fatal(reply, err)
	}
}

// lanesFail is a store that does not tell which lanes are blocked.
type lanesFail struct {
	*counter.Memory
	err error
}

func (l lanesFail) BlockedLanes(context.Context, string, string) (int, error) { return 0, l.err }

// lanesAway is a store that does not tell which lanes are blocked while it is away.
type lanesAway struct {
	*counter.Memory
	away atomic.Bool
}

func (l *lanesAway) BlockedLanes(ctx context.Context, vhost, queue string) (int, error) {
	if l.away.Load() {
		return 0, errDown
	}
	return l.Memory.BlockedLanes(ctx, vhost, queue)
}

// TestALaneBlockedDuringASessionEndsIt: within two seconds, if the session holds no lanes. One that holds lanes goes
// on, as does one on another partition, and all if the store does not reply.
func TestALaneBlockedDuringASessionEndsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		s := &lanesAway{Memory: counter.NewMemory(nil)}
		var without, holding, other atomic.Bool
		begin := func(source string, ended *atomic.Bool, c Consumer) {
			c.Queue, c.Counter = "orders", s
			session := newSessionOn(source, c.withDefaults(), "/", nil)
			session.end = func() { ended.Store(true) }
			go find[*laneRoom](session.rooms).beside(ctx)
		}
		begin("orders.3", &without, Consumer{})
		begin("orders.3", &holding, Consumer{HoldLanes: true, Lane: func(amqp.Delivery) string { return "" }})
		begin("orders.4", &other, Consumer{})
		time.Sleep(3500 * time.Millisecond) // between two reads of the store
		s.away.Store(true)
		blockLane(t, s.Memory, "orders.3", "a")
		time.Sleep(3 * time.Second)
		if without.Load() {
			t.Error("a session ended although no lane was known to be blocked")
		}
		s.away.Store(false)
		time.Sleep(2 * time.Second)
		if !without.Load() || holding.Load() || other.Load() {
			t.Errorf("ended: without HoldLanes %v, with HoldLanes %v, on another partition %v", without.Load(), holding.Load(),
				other.Load())
		}
	})
}

// A store that will never tell which lanes are blocked is refused. If it may tell later, the consumer begins.
func TestUnknownLanes(t *testing.T) {
	for _, tc := range []struct {
		err     error
		refused bool
	}{
		{&counter.StoreError{Fault: counter.FaultDenied, Err: errors.New("NOPERM")}, true},
		{&counter.StoreError{Fault: counter.FaultNotSetUp, Err: errors.New("no tables")}, true},
		{&counter.StoreError{Fault: counter.FaultLoading, Err: errors.New("LOADING")}, false},
		{errors.New("broken"), false},
	} {
		err := checkLanes(t, sessionOn(lanesFail{counter.NewMemory(nil), tc.err}, Consumer{}))
		if errors.As(err, new(refusal)) != tc.refused || tc.refused != errors.Is(err, tc.err) {
			t.Errorf("%v: %v", tc.err, err)
		}
	}
}

// After a blocked lane was seen, a store that is away does not let the next session overtake it.
func TestTheLastNumberOfBlockedLanesStands(t *testing.T) {
	s := sessionOn(held(t, "a"), Consumer{})
	for _, store := range []Counter{s.Counter, lanesFail{counter.NewMemory(nil), errors.New("away")}} {
		c := s.Consumer
		c.Counter = store
		s = newSession(c, "/", s.rooms)
		if err := checkLanes(t, s); !errors.As(err, new(refusal)) || !strings.Contains(err.Error(),
			"1 of its lanes are blocked") {
			t.Error(err)
		}
	}
}

func checkLanes(t *testing.T, s *session) error {
	t.Helper()
	r := find[*laneRoom](s.rooms)
	if r == nil {
		return nil
	}
	return r.check(t.Context(), &amqp.Connection{})
}

// A dead letter that another program has moved back has its position again, so it runs if it is the first of its lane.
// One without an id is known by the routing key of its first death where the broker keeps that, and else by its own.
func TestADeadLetterThatWasMovedBackHasItsPosition(t *testing.T) {
	const first, moved = "first", "moved"
	for _, tc := range []struct {
		id, version, key string
		want             step
	}{
		{"m1", "3.10.8", moved, stepReceived}, {"m1", "4.3.6", moved, stepReceived}, {"", "3.10.8", moved, stepReceived},
		{"", "4.3.6", first, stepReceived}, {"", "4.3.6", moved, stepDeadLetter},
	} {
		s := sessionOn(counter.NewMemory(nil), Consumer{HoldLanes: true, Lane: func(amqp.Delivery) string { return "a" }})
		s.prepare(t.Context(), t.Context())
		r := find[*laneRoom](s.rooms)
		need(t, r.check(t.Context(), &amqp.Connection{Properties: amqp.Table{"version": tc.version}}))
		need(t, r.blocked.Own(t.Context(), func(context.Context) error { return nil }))
		take := func(key string, headers amqp.Table) *delivery {
			d := &delivery{lane: "a", ours: broker.ReadHeaders(headers, "orders", tc.id, nil)}
			d.RoutingKey, d.Headers = key, headers
			d.message = counter.Message{VHost: "/", Queue: "orders", ID: tc.id, Generation: d.ours.Generation()}
			return d
		}
		d := take(first, nil)
		need(t, errOf(r.beforeAttempt(t.Context(), d)))
		if next, err := r.beforeSettlement(t.Context(), d, stepDeadLetter); err != nil || next != stepDeadLetter {
			t.Fatalf("%+v: step %v, %v", tc, next, err)
		}
		d = take(tc.key, amqp.Table{"x-death": []any{amqp.Table{"queue": "orders", "reason": "rejected",
			"count": int64(1), "time": time.Unix(1_700_000_000, 0), "routing-keys": []any{first}}}})
		if next, err := r.beforeAttempt(t.Context(), d); err != nil || next != tc.want {
			t.Errorf("%+v: step %v, %v", tc, next, err)
		} else if next != stepReceived {
			continue
		}
		if next, err := r.beforeSettlement(t.Context(), d, stepAck); err != nil || next != stepAck ||
			!r.blocked.IsFree("a") {
			t.Errorf("%+v: step %v, %v after a success; the lane is free: %v", tc, next, err, r.blocked.IsFree("a"))
		}
	}
}

// A session learns which lanes are blocked before its first attempt, from the session that owned them before. One that
// has lost the queue meanwhile does not get them.
func TestOwningLanes(t *testing.T) {
	store := held(t, "a")
	here := func(context.Context) error { return nil }
	owners := 0
	blocked := func() *lanes.Blocked {
		owners++
		return lanes.New(store, "/", "orders", fmt.Sprint("owner", owners), slog.New(slog.DiscardHandler))
	}
	lost := blocked()
	if err := lost.Own(t.Context(), func(context.Context) error {
		return errLost
	}); !errors.Is(err, errLost) || lost.IsOwned() {
		t.Errorf("a session that has lost the queue: %v", err)
	}
	late, next := blocked(), blocked()
	err := late.Own(t.Context(), func(ctx context.Context) error { return next.Own(ctx, here) })
	if !errors.Is(err, lanes.ErrUnowned) || late.IsOwned() {
		t.Errorf("a session whose successor came first: %v", err)
	}
	if !next.IsOwned() || next.IsFree("a") || next.IsFree("b") {
		t.Error("the successor takes a lane to be free before it has read which ones are blocked")
	}
	if next.Note("b", false) || !next.IsFree("b") || !next.Note("c", true) || !next.Note("c", false) {
		t.Error("what the steps say is not noted")
	}
	if err := next.ReadAll(t.Context()); err != nil || next.IsFree("a") || !next.IsFree("b") || !next.IsFree("c") ||
		!next.IsFree("d") {
		t.Errorf("the successor does not know which lane is blocked: %v", err)
	}
	if !next.Note("d", true) || next.Note("d", true) || next.IsFree("d") || !next.Note("a", false) || !next.IsFree("a") {
		t.Error("what changes is not noted")
	}
}

// A dead letter whose position was given up, and that another tool moved back, is attempted: it is no copy of a handled
// message.
func TestAMessageThatDiedSinceItsPositionIsNotSuperseded(t *testing.T) {
	for died, want := range map[bool]step{true: stepReceived, false: stepAck} {
		store := held(t, "a")
		state, err := store.Lane(t.Context(), "/", "orders", "a")
		need(t, err)
		position := state.First()
		need(t, errOf(store.DropPositions(t.Context(), "/", "orders", "a", []counter.Position{position})))
		s := sessionOn(store, Consumer{HoldLanes: true, Lane: func(amqp.Delivery) string { return "a" }})
		need(t, find[*laneRoom](s.rooms).blocked.Own(t.Context(), func(context.Context) error { return nil }))
		headers := amqp.Table{broker.PositionHeader: position.String()}
		if died {
			headers["x-death"] = []any{amqp.Table{"queue": "orders", "reason": "rejected", "count": int64(1),
				"time": time.Unix(1_700_000_000, 0)}}
		}
		broker.WriteFor(headers, "orders", "m1", nil)
		d := &delivery{lane: "a", message: counter.Message{VHost: "/", Queue: "orders", ID: "m1"}}
		d.ours = broker.ReadHeaders(headers, "orders", "m1", nil)
		r := find[*laneRoom](s.rooms)
		got, err := r.beforeAttempt(t.Context(), d)
		if passed := kept[inLane](d, r).passed; got != want || passed != (want == stepAck) || err != nil {
			t.Errorf("died %v: step %v, passed %v, %v; want step %v", died, got, passed, err, want)
		}
	}
}

// unansweredLanes is a store that does not answer a step of a lane while it is lossy.
type unansweredLanes struct {
	*counter.Memory
	lossy bool
}

func (u *unansweredLanes) StepLane(ctx context.Context, step rules.LaneStep) (rules.LaneReply, error) {
	if u.lossy {
		return rules.LaneReply{}, errDown
	}
	return u.Memory.StepLane(ctx, step)
}

// TestAnUnansweredEnterIsNotRepeatedAsABlock: the store does not answer whether a message may run, and then the session
// reads that its lane is free. The message runs and is dead-lettered. That blocks the lane, and does not repeat the
// question.
func TestAnUnansweredEnterIsNotRepeatedAsABlock(t *testing.T) {
	store := &unansweredLanes{Memory: held(t, "a"), lossy: true}
	s := sessionOn(store, Consumer{HoldLanes: true, Lane: func(amqp.Delivery) string { return "b" }})
	s.prepare(t.Context(), t.Context())
	r := find[*laneRoom](s.rooms)
	need(t, r.blocked.Own(t.Context(), func(context.Context) error { return nil }))
	d := &delivery{lane: "b", message: counter.Message{VHost: "/", Queue: "orders", ID: "m2"}}
	if next, err := r.beforeAttempt(t.Context(), d); !errors.Is(err, errDown) {
		t.Fatalf("step %v, %v; want no answer of the store", next, err)
	}
	store.lossy = false
	need(t, r.blocked.ReadAll(t.Context()))
	for _, take := range []func() (step, error){
		func() (step, error) { return r.beforeAttempt(t.Context(), d) },
		func() (step, error) { return r.beforeSettlement(t.Context(), d, stepDeadLetter) },
	} {
		if next, err := take(); err != nil || next != stepReceived && next != stepDeadLetter {
			t.Fatalf("step %v, %v", next, err)
		}
	}
	state, err := store.Lane(t.Context(), "/", "orders", "b")
	if err != nil || len(state.Open) != 1 || r.blocked.IsFree("b") {
		t.Errorf("the lane has %+v, %v, and the session takes it to be free: %v; want it blocked by its dead letter", state,
			err, r.blocked.IsFree("b"))
	}
}

// TestOtherLanesGoOn: a message of a blocked lane waits for the store, or for its dead-letter route. Meanwhile the only
// worker runs the messages of other lanes.
func TestOtherLanesGoOn(t *testing.T) {
	for name, lossy := range map[string]bool{"the store is away": true, "the route is broken": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, r := newBench(), newBreakable()
				b.route, b.Observer = r.route, nil
				store := &unansweredLanes{Memory: held(t, "a"), lossy: lossy}
				handled := make(chan string, 2)
				s := b.session(Consumer{Counter: store, Ordered: true, Concurrency: 1, Prefetch: 10, HoldLanes: true,
					Lane:    func(d amqp.Delivery) string { return d.RoutingKey },
					Handler: func(_ context.Context, d amqp.Delivery) error { handled <- d.RoutingKey; return nil },
				})
				blocked := find[*laneRoom](s.rooms).blocked
				need(t, blocked.Own(t.Context(), func(context.Context) error { return nil }))
				need(t, blocked.ReadAll(t.Context()))
				r.broken.Store(true)
				time.Sleep(routeEvery)
				deliveries := make(chan amqp.Delivery, 2)
				for i, lane := range []string{"a", "b"} {
					d := b.delivery(false)
					d.DeliveryTag, d.MessageId, d.RoutingKey = uint64(i+1), "new"+lane, lane
					deliveries <- d
				}
				ctx, stop := context.WithTimeout(t.Context(), time.Minute)
				defer stop()
				var calls []string
				_ = s.serve(ctx, &link{channel: quietWire{&calls}, deliveries: deliveries})
				if len(handled) != 1 || <-handled != "b" {
					t.Error("the message of the free lane waited for the other one")
				}
			})
		})
	}
}

// blocksAfter is a store that notes the settlements of the session before each message that blocks a lane.
type blocksAfter struct {
	*counter.Memory
	acks *channel
	seen chan string
}

func (b blocksAfter) StepLane(ctx context.Context, step rules.LaneStep) (rules.LaneReply, error) {
	if step.Act == rules.LaneBlock {
		b.seen <- b.acks.String()
	}
	return b.Memory.StepLane(ctx, step)
}

// TestAcksOfALaneGoBeforeItsDeadLetter: the ack of a handled message waits for a slow message of another lane. The
// session sends the ack before a later message blocks the lane. Else the handled message could return, and be
// dead-lettered behind the later one.
func TestAcksOfALaneGoBeforeItsDeadLetter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := unobserved()
		store := blocksAfter{b.store.Memory, b.acks, make(chan string, 1)}
		s := b.session(Consumer{Counter: store, Ordered: true, Concurrency: 2, Prefetch: 30, HoldLanes: true,
			Lane: func(d amqp.Delivery) string { return d.RoutingKey },
			Handler: func(_ context.Context, d amqp.Delivery) error {
				switch d.MessageId {
				case "slow":
					time.Sleep(20 * time.Second)
				case "dead":
					return Reject(errBoom)
				}
				return nil
			}})
		blocked := find[*laneRoom](s.rooms).blocked
		need(t, blocked.Own(t.Context(), func(context.Context) error { return nil }))
		need(t, blocked.ReadAll(t.Context()))
		deliveries := make(chan amqp.Delivery, 4)
		for i, id := range []string{"slow", "handled", "dead", "behind"} {
			d := b.delivery(false)
			d.DeliveryTag, d.MessageId, d.RoutingKey = uint64(i+1), id, map[string]string{"slow": "b"}[id]
			deliveries <- d
		}
		ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
		defer stop()
		_ = s.serve(ctx, &link{channel: quietWire{new([]string)}, deliveries: deliveries})
		if before := <-store.seen; before != "ack multiple=false" {
			t.Errorf("the lane was blocked after %q", before)
		}
		if got := b.acks.String(); !strings.HasPrefix(got, "ack multiple=false, nack requeue=false") {
			t.Errorf("settled: %s; want the ack before the dead letter", got)
		}
	})
}

// endlessLanes is a store whose list of blocked lanes has no end.
type endlessLanes struct {
	*counter.Memory
	pages int
	stop  func()
}

func (e *endlessLanes) NextBlocked(context.Context, string, string, counter.BlockedPage) (counter.BlockedPage, error) {
	if e.pages++; e.pages == 3 {
		e.stop()
	}
	return counter.BlockedPage{}, nil
}

func TestReadingLanesEndsWithItsSession(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	store := &endlessLanes{Memory: counter.NewMemory(nil), stop: stop}
	blocked := lanes.New(store, "/", "orders", "me", slog.New(slog.DiscardHandler))
	if err := blocked.ReadAll(ctx); !errors.Is(err, context.Canceled) || store.pages != 3 {
		t.Errorf("%v after %d pages, want the end after 3", err, store.pages)
	}
}

// TestLaneOfAReplayedMessage: a replay to the queue has the name of the queue as routing key. The message still gets
// the lane of the routing key that it had before.
func TestLaneOfAReplayedMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		s := b.session(Consumer{Handler: ok, Ordered: true, Lane: func(d amqp.Delivery) string {
			return d.Exchange + " " + d.RoutingKey
		}})
		s.prepare(t.Context(), t.Context())
		d := b.delivery(false)
		d.RoutingKey = "orders"
		d.Headers = amqp.Table{broker.LineageHeader: amqp.Table{"exchange": "events", "key": "customer-1"}}
		if lane := s.take(t.Context(), d).lane; lane != " orders" {
			t.Errorf("with headers that were copied from another message: lane %q", lane)
		}
		broker.WriteFor(d.Headers, "orders", d.MessageId, d.Body)
		if lane := s.take(t.Context(), d).lane; lane != "events customer-1" {
			t.Errorf("lane %q", lane)
		}
		s.tasks.Wait()
	})
}
