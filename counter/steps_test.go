package counter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// op is one step of a scenario: it takes the step and returns the reply, shortened.
type op struct {
	do   func(t *testing.T, s store, m Message) string
	want string
}

const testLimit = 3

func attempt(m Message, token string) Attempt {
	return Attempt{Message: m, Token: token, Consumer: "test"}
}

func show(a Reply, err error) string {
	if err != nil {
		return "error: " + err.Error()
	}
	return fmt.Sprintf("%v %d+%d fence %d", a.Code, a.Failures, a.Crashes, a.Fence)
}

// ordinals replaces the fences of one message, which are times, by their order: the first is 1. It finds one that is
// not greater than those before.
type ordinals []int64

func (o *ordinals) in(t *testing.T, text string) string {
	t.Helper()
	before, number, ok := strings.Cut(text, " fence ")
	fence, err := strconv.ParseInt(number, 10, 64)
	if !ok || err != nil || fence == 0 {
		return text
	}
	if n := len(*o); n == 0 || fence > (*o)[n-1] {
		*o = append(*o, fence)
	}
	i := slices.Index(*o, fence)
	if i < 0 {
		t.Errorf("the fence %d is not greater than those before: %d", fence, *o)
	}
	return fmt.Sprintf("%s fence %d", before, i+1)
}

func start(token string, mode Mode, want string) op {
	return op{func(t *testing.T, s store, m Message) string {
		return show(s.Start(t.Context(), attempt(m, token), mode, testLimit))
	}, want}
}

// reserve is the START of an isolated attempt whose handler does not begin.
func reserve(token, want string) op { return start(token, ModeIsolated, want) }

// isolate is the START of an isolated attempt, and its BEGUN if it may run.
func isolate(token, want string) op {
	return op{func(t *testing.T, s store, m Message) string {
		reply, err := s.Start(t.Context(), attempt(m, token), ModeIsolated, testLimit)
		if reply.Code != ReplyRun || err != nil {
			return show(reply, err)
		}
		begun, err := s.Begun(t.Context(), attempt(m, token))
		if begun.Code != ReplyBegun || err != nil {
			return show(begun, err)
		}
		return show(reply, nil)
	}, want}
}

func begun(token, want string) op {
	return op{func(t *testing.T, s store, m Message) string { return show(s.Begun(t.Context(), attempt(m, token))) }, want}
}

func fail(token string, f Failure, want string) op {
	return op{func(t *testing.T, s store, m Message) string {
		return show(s.Fail(t.Context(), attempt(m, token), f))
	}, want}
}

// fresh makes an attempt's step the one of a first delivery.
func fresh(token string, step func(store, Attempt) (Reply, error), want string) op {
	return op{func(t *testing.T, s store, m Message) string {
		a := attempt(m, token)
		a.First = true
		return show(step(s, a))
	}, want}
}

func failFirst(token string, f Failure, want string) op {
	return fresh(token, func(s store, a Attempt) (Reply, error) { return s.Fail(context.Background(), a, f) }, want)
}

func startFirst(token string, want string) op {
	return fresh(token, func(s store, a Attempt) (Reply, error) {
		return s.Start(context.Background(), a, ModeIsolated, testLimit)
	}, want)
}

func end(token string, succeeded bool) op {
	return op{func(t *testing.T, s store, m Message) string {
		if err := s.End(t.Context(), attempt(m, token), succeeded); err != nil {
			return err.Error()
		}
		return ""
	}, ""}
}

func later(d time.Duration) op {
	return op{func(t *testing.T, s store, m Message) string { s.age(t, d, m); return "" }, ""}
}

// own gives the message a limit of its own.
func own(attempts int, want string) op {
	return op{func(t *testing.T, s store, m Message) string {
		return outcome(s.LimitMessage(t.Context(), m, attempts, Note{By: "op", Why: "supplier down"}))
	}, want}
}

func clearLimit(want string) op {
	return op{func(t *testing.T, s store, m Message) string {
		return outcome(s.Reset(t.Context(), m, Note{By: "op", Why: "fixed"}))
	}, want}
}

func outcome(err error) string {
	switch {
	case errors.Is(err, ErrNoRecord):
		return "no record"
	case errors.Is(err, ErrOver):
		return "over"
	case err != nil:
		return err.Error()
	}
	return ""
}

// failHolding is the failure of a consumer that keeps the order of its whole queue. It shows the cause in the reply
// too.
func failHolding(token string, f Failure, want string) op {
	return op{func(t *testing.T, s store, m Message) string {
		a := attempt(m, token)
		a.HoldsQueue = true
		reply, err := s.Fail(t.Context(), a, f)
		return fmt.Sprintf("%s, %s", show(reply, err), reply.Cause)
	}, want}
}

// inForce is the limit that the next step replies with.
func inForce(token string, want string) op {
	return op{func(t *testing.T, s store, m Message) string {
		a, err := s.Start(t.Context(), attempt(m, token), ModeShared, testLimit)
		return fmt.Sprint(a.Code, " limit ", a.Limit, " ", err)
	}, want}
}

// inOneDay is a fence that the clock reaches a day from now.
var inOneDay = time.Now().Add(24 * time.Hour).UnixMicro()

func record(want string) op {
	return op{func(t *testing.T, s store, m Message) string {
		records, err := s.Get(t.Context(), m.VHost, m.Queue, m.ID)
		if err != nil || len(records) != 1 {
			return fmt.Sprint(len(records), " records, ", err)
		}
		r := records[0]
		return fmt.Sprintf("%q %d+%d open %q suspect %v cause %q error %q", r.State, r.Failures, r.Crashes, r.OpenToken,
			r.Suspect, r.Cause, r.Reason)
	}, want}
}

var (
	again    = Failure{Limit: testLimit, Reason: "boom"}
	inAnHour = Failure{Limit: testLimit, Reason: "boom", Wait: time.Hour}
	reject   = Failure{Cause: CauseRejected, Limit: 0, Reason: "poison"}
)

// TestSteps takes the steps of scenarios that spec/v1/steps.json does not have.
func TestSteps(t *testing.T) {
	all := stores(t)
	for _, tc := range []struct {
		name string
		ops  []op
	}{
		{"an open shared attempt that is taken over leaves a suspect", []op{
			start("a", ModeShared, "RUN 0+0 fence 1"), isolate("b", "RUN 0+0 fence 2"), end("b", false),
			start("c", ModeShared, "SUSPECT 0+0 fence 2"),
		}},
		{"a reservation that another START ended does not begin any more", []op{
			reserve("a", "RUN 0+0 fence 1"), start("b", ModeShared, "SUSPECT 0+0 fence 1"), begun("a", "GONE 0+0 fence 1"),
			reserve("a", "RUN 0+0 fence 1"), begun("a", "GONE 0+0 fence 1"), isolate("b", "RUN 0+0 fence 2"),
			begun("a", "GONE 0+0 fence 2"),
			isolate("c", "RUN 0+1 fence 3"),
		}},
		{"BEGUN of an attempt that is open but shared changes nothing", []op{
			start("a", ModeShared, "RUN 0+0 fence 1"), begun("a", "BEGUN 0+0 fence 1"), start("b", ModeShared,
				"SUSPECT 0+0 fence 1"),
			isolate("b", "RUN 0+0 fence 2"),
		}},
		{"what was handled before BEGUN does not begin", []op{
			reserve("a", "RUN 0+0 fence 1"), end("z", true), begun("a", "GONE 0+0 fence 1"),
		}},
		{"what was reset before BEGUN does not begin", []op{
			reserve("a", "RUN 0+0 fence 1"), clearLimit(""), begun("a", "GONE 0+0 fence 1"),
		}},
		{"a success is forgotten after ten minutes", []op{
			failFirst("a", again, "REQUEUE 1+0 fence 0"), start("b", ModeShared, "RUN 1+0 fence 1"), end("b", true),
			later(11 * time.Minute), start("c", ModeShared, "RUN 0+0 fence 2"),
		}},
		{"a success repeated late does not end a new use of the id", []op{
			start("a", ModeShared, "RUN 0+0 fence 1"), end("a", true), failFirst("b", again, "REQUEUE 1+0 fence 1"),
			end("a", true),
			record(`"" 1+0 open "" suspect false cause "failed" error "boom"`),
		}},
		{"a tombstone that is met binds for ten minutes more: its dead letter may be held", []op{
			fail("a", reject, "EXHAUSTED 1+0 fence 0"), later(9 * time.Minute), start("b", ModeShared, "EXHAUSTED 1+0 fence 0"),
			later(9 * time.Minute), start("c", ModeShared, "EXHAUSTED 1+0 fence 0"), later(11 * time.Minute),
			start("d", ModeShared, "RUN 0+0 fence 1"),
		}},
		{"a lower limit does not exhaust what was handled, only what kills after that", []op{
			fail("a", Failure{Limit: 9, Reason: "boom"}, "REQUEUE 1+0 fence 0"), fail("b", Failure{Limit: 9, Reason: "boom"},
				"REQUEUE 2+0 fence 0"),
			fail("c", Failure{Limit: 9, Reason: "boom"}, "REQUEUE 3+0 fence 0"), end("d", true),
			start("e", ModeShared, "RUN 3+0 fence 1"), start("f", ModeShared, "SUSPECT 3+0 fence 1"),
			isolate("f", "RUN 3+0 fence 2"),
			isolate("g", "EXHAUSTED 3+1 fence 2"),
		}},
		{"a first delivery on a live record adds to it", []op{
			failFirst("a", again, "REQUEUE 1+0 fence 0"), failFirst("b", again, "REQUEUE 2+0 fence 0"), failFirst("c", again,
				"EXHAUSTED 3+0 fence 0"),
		}},
		{"a new use of an id counts no crash of the one before", []op{
			isolate("a", "RUN 0+0 fence 1"), isolate("b", "RUN 0+1 fence 2"), fail("z", reject, "EXHAUSTED 1+1 fence 2"),
			failFirst("c", again, "REQUEUE 1+0 fence 2"), isolate("d", "RUN 1+0 fence 3"),
		}},
		{"strict: a first delivery on a tombstone or a success is a new use of the id", []op{
			fail("a", reject, "EXHAUSTED 1+0 fence 0"), startFirst("b", "RUN 0+0 fence 1"), startFirst("b", "RUN 0+0 fence 1"),
			end("b", true), startFirst("c", "RUN 0+0 fence 2"), fail("c", again, "REQUEUE 1+0 fence 2"),
		}},
		{"a limit of its own is in force at the next step", []op{
			fail("a", again, "REQUEUE 1+0 fence 0"), fail("b", again, "REQUEUE 2+0 fence 0"), own(5, ""),
			inForce("c", "RUN limit 5 <nil>"), fail("c", again, "REQUEUE 3+0 fence 1"), fail("d", again, "REQUEUE 4+0 fence 1"),
			fail("e", again, "EXHAUSTED 5+0 fence 1"),
		}},
		{"the last limit of its own counts, and 0 takes it back", []op{
			fail("a", again, "REQUEUE 1+0 fence 0"), own(4, ""), own(7, ""), inForce("b", "RUN limit 7 <nil>"), own(0, ""),
			inForce("c", "SUSPECT limit 3 <nil>"),
		}},
		{"a limit of its own may be lower than the count", []op{
			fail("a", again, "REQUEUE 1+0 fence 0"), fail("b", again, "REQUEUE 2+0 fence 0"), own(1, ""), start("c", ModeShared,
				"EXHAUSTED 2+0 fence 0"),
		}},
		{"a limit of its own counts for crashes too", []op{
			isolate("a", "RUN 0+0 fence 1"), own(4, ""), isolate("b", "RUN 0+1 fence 2"), isolate("c", "RUN 0+2 fence 3"),
			isolate("d", "RUN 0+3 fence 4"), isolate("e", "EXHAUSTED 0+4 fence 4"),
		}},
		{"a limit of its own is of one use of the id", []op{
			fail("a", again, "REQUEUE 1+0 fence 0"), own(9, ""), fail("b", reject, "EXHAUSTED 2+0 fence 0"),
			later(11 * time.Minute), inForce("c", "RUN limit 3 <nil>"),
		}},
		{"a limit of its own neither wakes the dead nor what never failed", []op{
			own(9, "no record"), fail("a", reject, "EXHAUSTED 1+0 fence 0"), own(9, "over"), start("b", ModeShared,
				"EXHAUSTED 1+0 fence 0"),
		}},
		{"what was handled gets no limit of its own", []op{
			start("a", ModeShared, "RUN 0+0 fence 1"), end("a", true), own(9, "over"),
		}},
		{"nothing is reset where nothing is counted", []op{clearLimit("no record"), record("0 records, <nil>")}},
		{"a failure repeated under a lower limit leaves a tombstone", []op{
			fail("a", Failure{Limit: 9}, "REQUEUE 1+0 fence 0"), fail("a", Failure{Limit: 1}, "EXHAUSTED 1+0 fence 0"),
			record(`"exhausted" 1+0 open "" suspect false cause "failed" error ""`),
		}},
		{"the last failure repeated is answered alike and starts nothing anew", []op{
			failFirst("a", Failure{Limit: 1, Reason: "boom"}, "EXHAUSTED 1+0 fence 0"),
			failFirst("a", Failure{Limit: 1, Reason: "boom"}, "EXHAUSTED 1+0 fence 0"),
			record(`"exhausted" 1+0 open "" suspect false cause "failed" error "boom"`),
		}},
		{"a reset lifts a tombstone, a wait and suspicion", []op{
			fail("a", inAnHour, "REQUEUE 1+0 fence 0"), clearLimit(""), start("b", ModeShared, "RUN 0+0 fence 1"),
			start("c", ModeShared, "SUSPECT 0+0 fence 1"),
			clearLimit(""), start("c", ModeShared, "RUN 0+0 fence 2"), fail("c", reject, "EXHAUSTED 1+0 fence 2"),
			clearLimit(""),
			start("d", ModeShared, "RUN 0+0 fence 3"),
		}},
		{"a tombstone binds: a lost nack is repeated without the handler", []op{
			fail("a", reject, "EXHAUSTED 1+0 fence 0"), start("b", ModeShared, "EXHAUSTED 1+0 fence 0"),
			isolate("c", "EXHAUSTED 1+0 fence 0"),
			fail("z", again, "EXHAUSTED 1+0 fence 0"),
		}},
		{"a first delivery on a tombstone is a new use of the id", []op{
			fail("a", reject, "EXHAUSTED 1+0 fence 0"), failFirst("b", again, "REQUEUE 1+0 fence 0"),
			fail("a", reject, "EXHAUSTED 1+0 fence 0"), record(`"" 1+0 open "" suspect false cause "failed" error "boom"`),
		}},
		{"a reset takes the limit of its own back", []op{
			fail("a", again, "REQUEUE 1+0 fence 0"), own(9, ""), clearLimit(""), inForce("b", "RUN limit 3 <nil>"),
		}},
		{"a late step of a message that holds its queue is told why the queue is held", []op{
			end("a", false), failHolding("b", reject, "HELD 1+0 fence 0, rejected"), fail("c", again, "REQUEUE 2+0 fence 0"),
			failHolding("a", Failure{Limit: testLimit, AtMost: 1}, "HELD 2+0 fence 0, rejected"),
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, s := range all {
				m := Message{VHost: "/", Queue: tc.name, ID: tc.name}
				var fences ordinals
				for i, o := range tc.ops {
					if got := fences.in(t, o.do(t, s, m)); got != o.want {
						t.Errorf("%s: step %d: got %s, want %s", s.name, i+1, got, o.want)
					}
				}
			}
		})
	}
}

func TestMessagesAreCountedApart(t *testing.T) {
	base := Message{VHost: "/", Queue: "orders", ID: "1"}
	for name, other := range map[string]Message{
		"id":                  {VHost: "/", Queue: "orders", ID: "2"},
		"queue":               {VHost: "/", Queue: "bills", ID: "1"},
		"vhost":               {VHost: "eu", Queue: "orders", ID: "1"},
		"generation":          {VHost: "/", Queue: "orders", ID: "1", Generation: "1@1700000000"},
		"slash in the vhost":  {VHost: "//orders", Queue: "", ID: "1"},
		"brace in the queue":  {VHost: "/", Queue: "orders}", ID: "1"},
		"NUL in the id":       {VHost: "/", Queue: "orders", ID: "1\x00"},
		"id like a key":       {VHost: "/", Queue: "orders", ID: "1:0"},
		"newline in the id":   {VHost: "/", Queue: "orders", ID: "1\n"},
		"id of a hash's form": {VHost: "/", Queue: "orders", ID: hashID("1")},
	} {
		t.Run(name, func(t *testing.T) {
			if other.Queue == "" {
				other.Queue = "x"
			}
			for _, s := range stores(t) {
				if got := show(s.Fail(t.Context(), attempt(base, "a"), again)); got != "REQUEUE 1+0 fence 0" {
					t.Fatalf("%s: %s", s.name, got)
				}
				if got := show(s.Fail(t.Context(), attempt(other, "b"), again)); got != "REQUEUE 1+0 fence 0" {
					t.Errorf("%s: the other message was counted with the first: %s", s.name, got)
				}
			}
		})
	}
}

func TestArgumentsAreRefused(t *testing.T) {
	ok := Attempt{Message: Message{VHost: "/", Queue: "orders", ID: "1"}, Token: "a"}
	for name, change := range map[string]func(*Attempt){
		"no queue":         func(a *Attempt) { a.Queue = "" },
		"no id":            func(a *Attempt) { a.ID = "" },
		"no token":         func(a *Attempt) { a.Token = "" },
		"token with a ;":   func(a *Attempt) { a.Token = "a;b=f" },
		"token of 65":      func(a *Attempt) { a.Token = string(make([]byte, 65)) },
		"token with a NUL": func(a *Attempt) { a.Token = "a\x00" },
	} {
		t.Run(name, func(t *testing.T) {
			a := ok
			change(&a)
			for _, s := range stores(t) {
				if _, err := s.Fail(t.Context(), a, again); err == nil {
					t.Errorf("%s: accepted", s.name)
				}
			}
		})
	}
	for _, s := range stores(t) {
		if _, err := s.Start(t.Context(), ok, ModeShared, 0); err == nil {
			t.Errorf("%s: a limit of 0 was accepted by Start", s.name)
		}
		for _, cause := range []Cause{CauseCrashed, CauseNoID, "two words"} {
			var refused *FieldError
			if _, err := s.Fail(t.Context(), ok, Failure{Cause: cause}); !errors.As(err, &refused) || refused.Field != "Cause" {
				t.Errorf("%s: the cause %q was not refused: %v", s.name, cause, err)
			}
		}
	}
}
