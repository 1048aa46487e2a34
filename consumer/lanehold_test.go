package consumer

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/queueinfo"
)

func TestDecideLane(t *testing.T) {
	for _, tc := range []struct {
		act  counter.LaneAct
		code counter.LaneCode
		want step
	}{
		{counter.LaneEnter, counter.LaneFree, stepRun},
		{counter.LaneEnter, counter.LaneRun, stepRun},
		{counter.LaneEnter, counter.LaneBlocked, stepDeadLetter},
		{counter.LaneEnter, counter.LaneSuperseded, stepAck},
		{counter.LaneEnter, counter.LaneUnowned, stepLeave},
		{counter.LaneEnter, counter.LaneUnknown, stepLeave},
		{counter.LaneBlock, counter.LaneBlocked, stepDeadLetter},
		{counter.LaneBlock, counter.LaneSuperseded, stepDeadLetter},
		{counter.LaneBlock, counter.LaneUnowned, stepLeave},
		{counter.LaneLeave, counter.LaneFree, stepAck},
		{counter.LaneLeave, counter.LaneBlocked, stepAck},
		{counter.LaneLeave, counter.LaneSuperseded, stepAck},
		{counter.LaneLeave, counter.LaneUnknown, stepLeave},
	} {
		if got := decideLane(tc.act, tc.code); got != tc.want {
			t.Errorf("%v, code %d: got %d, want %d", tc.act, tc.code, got, tc.want)
		}
	}
}

// plainCounter is a Counter without lanes.
type plainCounter struct{ Counter }

func TestHoldLanesNeedsALaneKeeper(t *testing.T) {
	c := Consumer{
		Queue: "orders", Handler: ok, Ordered: true, HoldLanes: true, Lane: func(amqp.Delivery) string { return "" },
		Counter: plainCounter{counter.NewMemory(nil)},
	}
	var fe *FieldError
	if err := c.Consume(t.Context(), &amqp.Connection{}); !errors.As(err, &fe) || fe.Field != "Counter" {
		t.Error(err)
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
	if _, err := store.OwnLanes(t.Context(), "/", "orders", "", "owner"); err != nil {
		t.Fatal(err)
	}
	reply, err := store.StepLane(t.Context(), counter.LaneStep{
		Message: counter.Message{VHost: "/", Queue: "orders", ID: "m1"}, Lane: lane, Act: counter.LaneBlock, Owner: "owner",
		Number: 1,
	})
	if err != nil || reply.Code != counter.LaneBlocked {
		t.Fatal(reply, err)
	}
}

// A consumer that would let messages overtake the dead letters of blocked lanes does not begin.
func TestBlockedLanesAreRefusedWithoutHoldLanes(t *testing.T) {
	for _, tc := range []struct {
		store   Counter
		holds   bool
		refused bool
	}{{held(t, "a"), false, true}, {held(t, "a"), true, false}, {counter.NewMemory(nil), false, false},
		{plainCounter{counter.NewMemory(nil)}, false, false}} {
		err := sessionOn(tc.store, Consumer{HoldLanes: tc.holds, Lane: func(amqp.Delivery) string {
			return ""
		}}).checkLanes(t.Context())
		if refused := errors.As(err, new(refusal)); refused != tc.refused || refused && !strings.Contains(err.Error(),
			"1 of its lanes are blocked") {
			t.Errorf("%+v: %v", tc, err)
		}
	}
}

// lanesFail is a store that does not tell which lanes are blocked.
type lanesFail struct {
	*counter.Memory
	err error
}

func (l lanesFail) BlockedLanes(context.Context, string, string) (int, error) { return 0, l.err }

// A store that will never tell which lanes are blocked is refused. If it may tell later, the consumer begins, with a
// warning.
func TestUnknownLanes(t *testing.T) {
	for _, tc := range []struct {
		err     error
		refused bool
	}{
		{&counter.StoreError{Fault: counter.FaultDenied, Err: errors.New("NOPERM")}, true},
		{&counter.StoreError{Fault: counter.FaultLoading, Err: errors.New("LOADING")}, false},
		{errors.New("broken"), false},
	} {
		var log strings.Builder
		logger := slog.New(slog.NewTextHandler(&log, nil))
		err := sessionOn(lanesFail{counter.NewMemory(nil), tc.err}, Consumer{Logger: logger}).checkLanes(t.Context())
		if errors.As(err, new(refusal)) != tc.refused || tc.refused != errors.Is(err, tc.err) ||
			tc.refused == strings.Contains(log.String(), "is not known") {
			t.Errorf("%v: %v, log %q", tc.err, err, log.String())
		}
	}
}

// After a blocked lane was seen, a store that is away does not let the next session overtake it.
func TestTheLastNumberOfBlockedLanesStands(t *testing.T) {
	s := sessionOn(lanesFail{counter.NewMemory(nil), errors.New("away")}, Consumer{})
	s.control = &control{lanes: 2}
	if err := s.checkLanes(t.Context()); !errors.As(err, new(refusal)) || !strings.Contains(err.Error(),
		"2 of its lanes are blocked") {
		t.Error(err)
	}
	s.Counter = held(t, "a")
	if err := s.checkLanes(t.Context()); !errors.As(err, new(refusal)) || s.control.blockedLanes() != 1 {
		t.Errorf("%v, %d held", err, s.control.blockedLanes())
	}
}

// TestALaneBlockedDuringASessionEndsIt: within two seconds, if the session holds no lanes. One that holds lanes goes on,
// as do both if the store does not reply.
func TestALaneBlockedDuringASessionEndsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		var controls heldControl
		k := controls.of(sessionOn(s, Consumer{}))
		defer controls.release()
		none, end := k.consuming(t.Context(), false)
		defer end()
		holds, end := k.consuming(t.Context(), true)
		defer end()
		time.Sleep(3500 * time.Millisecond) // between two reads of the store
		s.down.Store(true)
		holdLane(t, s.Memory, "a")
		time.Sleep(3 * time.Second)
		if none.Err() != nil {
			t.Error("a session ended although no lane was known to be blocked")
		}
		s.down.Store(false)
		time.Sleep(2 * time.Second)
		if none.Err() == nil || holds.Err() != nil {
			t.Errorf("without HoldLanes the session goes on: %v; with HoldLanes: %v", none.Err() == nil, holds.Err() == nil)
		}
	})
}

func TestUnreadableLanesAreLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		store := lanesFail{counter.NewMemory(nil), errors.New("away")}
		logger := slog.New(slog.NewTextHandler(&log, nil))
		var controls heldControl
		_, end := controls.of(sessionOn(store, Consumer{Logger: logger})).consuming(t.Context(), false)
		time.Sleep(5 * time.Second)
		end()
		controls.release()
		if n := strings.Count(log.String(), "is not known"); n != 1 {
			t.Errorf("%d warnings in %q, want 1", n, log.String())
		}
	})
}

// A session learns which lanes are blocked before its first attempt, from the session that owned them before. One that has
// lost the queue meanwhile does not get them.
func TestOwningLanes(t *testing.T) {
	store := held(t, "a")
	session := sessionOn(store, Consumer{})
	here := func(context.Context) error { return nil }
	lost := newHolds(session, store)
	if err := lost.own(t.Context(), func(context.Context) error {
		return errLost
	}); !errors.Is(err, errLost) || lost.isOwned() {
		t.Errorf("a session that has lost the queue: %v", err)
	}
	late, next := newHolds(session, store), newHolds(session, store)
	err := late.own(t.Context(), func(ctx context.Context) error { return next.own(ctx, here) })
	if !errors.Is(err, errLaneUnowned) || late.isOwned() {
		t.Errorf("a session whose successor came first: %v", err)
	}
	if !next.isOwned() || next.isFree("a") || next.isFree("b") {
		t.Error("the successor takes a lane to be free before it has read which ones are blocked")
	}
	if next.note("b", false) || !next.isFree("b") || !next.note("c", true) || !next.note("c", false) {
		t.Error("what the steps say is not noted")
	}
	if err := next.readAll(t.Context()); err != nil || next.isFree("a") || !next.isFree("b") || !next.isFree("c") ||
		!next.isFree("d") {
		t.Errorf("the successor does not know which lane is blocked: %v", err)
	}
	if !next.note("d", true) || next.note("d", true) || next.isFree("d") || !next.note("a", false) || !next.isFree("a") {
		t.Error("what changes is not noted")
	}
}

// A dead letter whose position was given up, and that another tool moved back, is attempted: it is no copy of a handled
// message.
func TestAMessageThatDiedSinceItsPositionIsNotSuperseded(t *testing.T) {
	for died, want := range map[bool]step{true: stepRun, false: stepAck} {
		store := held(t, "a")
		state, err := store.Lane(t.Context(), "/", "orders", "a")
		if err != nil {
			t.Fatal(err)
		}
		position := state.First()
		if _, err := store.DropPositions(t.Context(), "/", "orders", "a", []counter.Position{position}); err != nil {
			t.Fatal(err)
		}
		s := sessionOn(store, Consumer{HoldLanes: true, Lane: func(amqp.Delivery) string { return "a" }})
		if err := s.holds.own(t.Context(), func(context.Context) error { return nil }); err != nil {
			t.Fatal(err)
		}
		headers := amqp.Table{PositionHeader: position.String()}
		if died {
			headers["x-death"] = []any{amqp.Table{"queue": "orders", "reason": "rejected", "count": int64(1),
				"time": time.Unix(1_700_000_000, 0)}}
		}
		queueinfo.WriteFor(headers, "orders", "m1", nil)
		d := &delivery{lane: "a", message: counter.Message{VHost: "/", Queue: "orders", ID: "m1"},
			inLane: &inLane{carried: position}}
		d.ours = queueinfo.Read(headers, "orders", "m1", nil)
		if got := s.enterLane(t.Context(), d); got != want || d.superseded != (want == stepAck) {
			t.Errorf("died %v: step %v, superseded %v; want step %v", died, got, d.superseded, want)
		}
	}
}
