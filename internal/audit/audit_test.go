package audit

import (
	"slices"
	"testing"
	"time"
)

// history is written by tests, a millisecond an event.
type history []Event

var began = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func (h *history) add(e Event) {
	if e.At.IsZero() {
		e.At = began.Add(time.Duration(len(*h)) * time.Millisecond)
	}
	*h = append(*h, e)
}

// change applies to the events of a kind about an id or token.
func (h history) change(kind Kind, of string, do func(*Event)) {
	for i := range h {
		if h[i].Kind == kind && (h[i].ID == of || h[i].Token == of || of == "") {
			do(&h[i])
		}
	}
}

// without drops the events of a kind about an id or token.
func (h *history) without(kind Kind, of string) {
	*h = slices.DeleteFunc(*h, func(e Event) bool { return e.Kind == kind && (e.ID == of || e.Token == of) })
}

// complete is a history as a simulation records it, with the events of the broker and the store. A message succeeds,
// and one fails until it is dead-lettered, the second time isolated.
func complete() history {
	h := history{}
	h.add(Event{Kind: Setup, Plan: &Plan{MaxRetries: 1, HandlerTimeout: time.Second, Ordered: true}})
	h.add(Event{Kind: Published, ID: "a", Copy: "a.1", Seq: 1, Outcome: Confirmed})
	h.add(Event{Kind: Published, ID: "b", Copy: "b.1", Seq: 2, Outcome: Confirmed})
	h.add(Event{Kind: Started, Process: 1})
	h.add(Event{Kind: Opened, Process: 1, Session: 1})
	h.delivery("a", 1, "p-1", false, OK)
	h.settle("a", 1, Ack)
	h.delivery("b", 2, "p-2", false, Failed)
	h.write("p-2", StepFail, ReplyRequeue, nil, &Record{Failures: 1, Tokens: ";p-2=f"})
	h.settle("b", 2, Requeue)
	once := &Record{Failures: 1, Tokens: ";p-2=f"}
	h.write("p-3", StepStart, ReplyRun, once, once)
	h.delivery("b", 3, "p-3", true, Failed)
	h.write("p-3", StepFail, ReplyExhausted, once, &Record{State: ReplyExhausted, Failures: 2, Tokens: ";p-2=f;p-3=f"})
	h.settle("b", 3, DeadLetter)
	return h
}

func (h *history) delivery(id string, tag uint64, token string, redelivered bool, outcome string) {
	e := Event{ID: id, Copy: id + ".1", Process: 1, Session: 1, Tag: tag, Redelivered: redelivered}
	e.Kind = Delivered
	h.add(e)
	e.Kind, e.Token = Began, token
	h.add(e)
	e.Kind, e.Outcome = Ended, outcome
	h.add(e)
}

// write adds a step at b, and its answer.
func (h *history) write(token, step, code string, before, after *Record) {
	e := Event{
		Kind: Written, ID: "b", Token: token, Process: 1, Session: 1, Step: step, Code: code, Limit: 2,
		Isolated: step == StepStart, Before: before, Record: after,
	}
	h.add(e)
	h.add(Event{Kind: Stepped, ID: "b", Token: token, Process: 1, Session: 1, Step: step, Code: code,
		Isolated: e.Isolated})
}

func (h *history) settle(id string, tag uint64, decision string) {
	h.add(Event{Kind: Settled, ID: id, Copy: id + ".1", Process: 1, Session: 1, Tag: tag, Decision: decision,
		Accepted: true})
}

// before inserts events before the first one of a kind and token.
func (h *history) before(kind Kind, token string, events ...Event) {
	var out history
	for _, e := range *h {
		if e.Kind == kind && e.Token == token {
			for _, x := range events {
				x.At = e.At.Add(-time.Microsecond)
				out = append(out, x)
			}
			kind = ""
		}
		out = append(out, e)
	}
	*h = out
}

func TestCompleteHistory(t *testing.T) {
	if got := Check(complete()).Broken(); len(got) > 0 {
		t.Errorf("violated: %q", got)
	}
}

// TestEachViolationIsSeenWhereItHappens breaks a complete history in one place, and wants that invariant named.
func TestEachViolationIsSeenWhereItHappens(t *testing.T) {
	found := map[string]bool{}
	for _, tc := range []struct {
		name, want string
		spoil      func(h *history)
	}{
		{"acked and not handled", "lost", func(h *history) {
			h.change(Ended, "p-1", func(e *Event) { e.Outcome = Cancelled })
		}},
		{"neither handled nor dead-lettered", "lost", func(h *history) {
			h.add(Event{Kind: Published, ID: "c", Copy: "c.1", Seq: 3, Outcome: Confirmed})
		}},
		{"counted and not failed", "causes", func(h *history) { h.change(Ended, "p-2", func(e *Event) { e.Outcome = OK }) }},
		{"a tombstone before the limit", "causes", func(h *history) {
			h.change(Setup, "", func(e *Event) { e.Plan.MaxRetries = 2 })
		}},
		{"too old too early", "causes", func(h *history) {
			h.change(Setup, "", func(e *Event) { e.Plan.MaxAge = time.Minute })
			h.last().Cause, h.last().Age = "too-old", time.Minute
		}},
		{"too old and retried", "bound", func(h *history) {
			h.change(Setup, "", func(e *Event) { e.Plan.MaxRetries, e.Plan.MaxAge = 2, time.Minute })
			h.last().State, h.last().Age = "", time.Minute+1
		}},
		{"retried more often than its handler allowed", "bound", func(h *history) {
			h.change(Setup, "", func(e *Event) { e.Plan.MaxRetries = 2 })
			h.change(Ended, "p-3", func(e *Event) { e.AtMost = 2 })
			h.last().State = ""
		}},
		{"a dead letter without a cause", "causes", func(h *history) {
			*h = (*h)[:len(*h)-1]
			h.delivery("b", 3, "p-4", true, Failed)
			h.add(Event{Kind: Published, ID: "c", Copy: "c.1", Seq: 3, Outcome: Confirmed})
			h.add(Event{Kind: Stepped, ID: "c", Token: "p-5", Process: 1, Session: 1, Step: StepStart,
				Code: ReplyExhausted})
			h.settle("c", 4, DeadLetter)
		}},
		{"a run too many", "bound", func(h *history) {
			for _, token := range []string{"p-4", "p-5", "p-6"} {
				h.delivery("b", 4, token, true, Failed)
			}
		}},
		{"beside an isolated attempt", "isolated", func(h *history) {
			h.before(Ended, "p-3", Event{Kind: Began, ID: "a", Copy: "a.1", Token: "p-4", Process: 1, Session: 1, Tag: 9})
		}},
		{"a crash of an attempt that was not isolated", "isolated", func(h *history) { h.crash("p-2") }},
		{"a crash counted by FAIL", "isolated", func(h *history) { h.crash("p-3") }},
		{"handled before its predecessor was done", "order", func(h *history) {
			h.change(Published, "b", func(e *Event) { e.Seq = 0 })
		}},
		{"one message taken for two", "one", func(h *history) { h.last().Duplicate = true }},
		{"ran again without leave", "answered", func(h *history) { h.without(Stepped, "p-3") }},
		{"dead-lettered without leave", "answered", func(h *history) {
			h.change(Stepped, "p-3", func(e *Event) {
				if e.Step == StepFail {
					e.Code = ""
				}
			})
		}},
		{"a step for a first success", "free", func(h *history) {
			h.add(Event{Kind: Stepped, ID: "a", Token: "p-1", Process: 1, Session: 1, Step: StepEnd, Code: "ended"})
		}},
		{"spinning", "answered", func(h *history) {
			for range mostUnanswered + 1 {
				h.add(Event{Kind: Stepped, ID: "b", Token: "p-2", Process: 1, Session: 1, Step: StepFail})
			}
		}},
		{"began before its BEGUN was answered", "begun", func(h *history) {
			h.add(Event{Kind: Asked, ID: "c", Token: "p-9", Process: 1, Session: 1})
			h.add(Event{Kind: Began, ID: "c", Token: "p-9", Process: 1, Session: 1})
		}},
		{"dead-lettered twice", "settled", func(h *history) { h.settle("b", 3, DeadLetter) }},
		{"not drained", "drained", func(h *history) { h.add(Event{Kind: Undrained, Err: "a.1 was never settled"}) }},
		{"settled twice", "settled", func(h *history) {
			h.add(Event{Kind: Settled, Process: 1, Session: 1, Tag: 1, Decision: Ack, Err: UnknownTag})
		}},
		{"settled with basic.reject", "settled", func(h *history) {
			h.add(Event{Kind: Settled, Process: 1, Session: 1, Tag: 1, Decision: "basic.reject", Accepted: false})
		}},
		{"delivered after its ack", "settled", func(h *history) {
			h.add(Event{Kind: Delivered, ID: "a", Copy: "a.1", Process: 1, Session: 1, Tag: 9})
		}},
		{"began after its process heard of a pause", "pause", func(h *history) {
			h.change(Opened, "", func(e *Event) {
				*e = Event{Kind: Heard, At: e.At.Add(-time.Minute), Process: 1, Paused: true}
			})
		}},
		{"began long after a pause", "pause", func(h *history) {
			h.change(Started, "", func(e *Event) { *e = Event{Kind: PauseBegan, At: e.At.Add(-time.Minute)} })
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := complete()
			tc.spoil(&h)
			r := Check(h)
			if r.Violations[tc.want].Count == 0 || r.Violations[tc.want].Example == "" {
				t.Errorf("%s was not reported, only %q", tc.want, r.Broken())
			}
			found[tc.want] = true
		})
	}
	for _, i := range Invariants {
		if !found[i.Name] {
			t.Errorf("no history breaks %s", i.Name)
		}
	}
}

// last is the record after the last step.
func (h *history) last() *Record {
	var out *Record
	h.change(Written, "", func(e *Event) { out = e.Record })
	return out
}

// crash has the last step count a crash of an attempt instead of its failure.
func (h *history) crash(token string) {
	r := h.last()
	r.Failures, r.Crashes = 1, 1
	r.Tokens = map[string]string{"p-2": ";p-2=c;p-3=f", "p-3": ";p-2=f;p-3=c"}[token]
}

// TestCrashesBeforeTheHandler has a process die before the handler of an isolated attempt begins, and the next START
// count a crash.
func TestCrashesBeforeTheHandler(t *testing.T) {
	for _, tc := range []struct {
		name               string
		asked, began       bool
		violations, listed int
	}{
		{"killed before BEGUN", false, false, 1, 0},
		{"killed after BEGUN was sent", true, false, 0, 1},
		{"killed while its handler ran", true, true, 0, 0},
	} {
		h := complete()
		of := func(kind Kind, token string, process int) Event {
			return Event{Kind: kind, ID: "b", Token: token, Process: process, Session: 1, Limit: 2}
		}
		step := func(e Event, code string, before, after *Record) {
			e.Code, e.Before, e.Record = code, before, after
			h.add(e)
		}
		live := &Record{}
		counted := &Record{Crashes: 1, Tokens: ";q-1=c"}
		h.add(Event{Kind: Started, Process: 2})
		h.add(Event{Kind: Opened, Process: 2, Session: 1})
		start := of(Written, "q-1", 2)
		start.Step, start.Isolated = StepStart, true
		step(start, ReplyRun, nil, live)
		start.Kind = Stepped
		step(start, ReplyRun, nil, nil)
		if tc.asked {
			h.add(of(Asked, "q-1", 2))
			begun := of(Written, "q-1", 2)
			begun.Step = StepBegun
			step(begun, ReplyBegun, live, live)
			if tc.began {
				begun.Kind = Stepped
				step(begun, ReplyBegun, nil, nil)
			}
		}
		if tc.began {
			h.add(of(Began, "q-1", 2))
		}
		h.add(Event{Kind: Exited, Process: 2, Err: "killed"})
		h.add(Event{Kind: Started, Process: 3})
		h.add(Event{Kind: Opened, Process: 3, Session: 1})
		next := of(Written, "r-1", 3)
		next.Step, next.Isolated = StepStart, true
		step(next, ReplyRun, live, counted)
		r := Check(h)
		if f := r.Violations["begun"]; f.Count != tc.violations || len(r.Unbegun) != tc.listed {
			t.Errorf("%s: %d violations, want %d: %s; listed %q", tc.name, f.Count, tc.violations, f.Example, r.Unbegun)
		}
	}
}

// TestMayHaveOpened: the last isolated START decides. Without a reply it may have opened the attempt.
func TestMayHaveOpened(t *testing.T) {
	isolated := func(code string) Event { return Event{Step: StepStart, Isolated: true, Code: code} }
	shared := Event{Step: StepStart, Code: ReplyRun}
	for _, tt := range []struct {
		name  string
		steps []Event
		want  bool
	}{
		{"a shared attempt", []Event{shared}, false},
		{"no reply", []Event{shared, isolated("")}, true},
		{"run", []Event{isolated(""), isolated(ReplyRun)}, true},
		{"wait, after no reply", []Event{isolated(""), isolated("wait")}, false},
	} {
		if got := mayHaveOpened(tt.steps); got != tt.want {
			t.Errorf("%s: got %v, want %v", tt.name, got, tt.want)
		}
	}
}
