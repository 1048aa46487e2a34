package counter

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/strikesmq/strikes/counter/rules"
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

func start(token string, mode rules.Mode, want string) op {
	return op{func(t *testing.T, s store, m Message) string {
		return show(s.Start(t.Context(), attempt(m, token), mode, testLimit))
	}, want}
}

func fail(token string, f Failure, want string) op {
	return op{func(t *testing.T, s store, m Message) string {
		return show(s.Fail(t.Context(), attempt(m, token), f))
	}, want}
}

// isolate is the START of an isolated attempt, and its BEGUN if it may run.
func isolate(token, want string) op {
	return op{func(t *testing.T, s store, m Message) string {
		reply, err := s.Start(t.Context(), attempt(m, token), rules.ModeIsolated, testLimit)
		if reply.Code != rules.ReplyRun || err != nil {
			return show(reply, err)
		}
		begun, err := s.Begun(t.Context(), attempt(m, token))
		if begun.Code != rules.ReplyBegun || err != nil {
			return show(begun, err)
		}
		return show(reply, nil)
	}, want}
}

// failFirst is the failure of a first delivery.
func failFirst(token string, f Failure, want string) op {
	return op{func(t *testing.T, s store, m Message) string {
		a := attempt(m, token)
		a.First = true
		return show(s.Fail(t.Context(), a, f))
	}, want}
}

func end(token string, succeeded bool) op {
	return op{func(t *testing.T, s store, m Message) string {
		if err := s.End(t.Context(), attempt(m, token), succeeded); err != nil {
			return err.Error()
		}
		return ""
	}, ""}
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

// inOneDay is a fence that the clock reaches a day from now.
var inOneDay = time.Now().Add(24 * time.Hour).UnixMicro()

var (
	again  = Failure{Limit: testLimit, Reason: "boom"}
	reject = Failure{Cause: CauseRejected, Limit: 0, Reason: "poison"}
)

// TestSteps takes the steps of scenarios that spec/v1/steps.json does not have, and that no rule of it implies.
func TestSteps(t *testing.T) {
	all := stores(t)
	for _, tc := range []struct {
		name string
		ops  []op
	}{
		{"a lower limit does not exhaust what was handled, only what kills after that", []op{
			fail("a", Failure{Limit: 9, Reason: "boom"}, "REQUEUE 1+0 fence 0"), fail("b", Failure{Limit: 9, Reason: "boom"},
				"REQUEUE 2+0 fence 0"),
			fail("c", Failure{Limit: 9, Reason: "boom"}, "REQUEUE 3+0 fence 0"), end("d", true),
			start("e", rules.ModeShared, "RUN 3+0 fence 1"), start("f", rules.ModeShared, "SUSPECT 3+0 fence 1"),
			isolate("f", "RUN 3+0 fence 2"),
			isolate("g", "EXHAUSTED 3+1 fence 2"),
		}},
		{"a first delivery on a tombstone is a new use of the id", []op{
			fail("a", reject, "EXHAUSTED 1+0 fence 0"), failFirst("b", again, "REQUEUE 1+0 fence 0"),
			fail("a", reject, "EXHAUSTED 1+0 fence 0"),
		}},
		{"a message that holds its queue goes on doing so until a consumer that holds none dead-letters it", []op{
			failHolding("a", Failure{Limit: testLimit, AtMost: 1}, "HELD 1+0 fence 0, failed"),
			failHolding("a", Failure{Limit: testLimit, AtMost: 1}, "HELD 1+0 fence 0, failed"),
			failHolding("b", reject, "HELD 2+0 fence 0, rejected"), start("c", rules.ModeShared, "EXHAUSTED 2+0 fence 0"),
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
