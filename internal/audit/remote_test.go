package audit

import (
	"fmt"
	"testing"
	"time"
)

// pushed is a history of one consumer process and its endpoint: a killer is posted once beside others and then
// isolated, and each time the endpoint ends. A harmless message is cut off the first time, and handled isolated.
func pushed() history {
	h := history{}
	h.add(Event{Kind: Setup, Plan: &Plan{MaxRetries: 1, HandlerTimeout: time.Second, MostHeld: 10 * time.Second,
		DrainWithin: 61 * time.Second}})
	h.add(Event{Kind: Published, ID: Kill, Do: Kill, Seq: 1, Outcome: Confirmed})
	h.add(Event{Kind: Published, ID: Succeed, Do: Succeed, Seq: 2, Outcome: Confirmed})
	h.add(Event{Kind: Opened, Process: 1, Session: 1})
	h.post(Kill, "p-1", false, Crashed, "crash")
	h.post(Succeed, "p-2", false, Crashed, "crash")
	h.post(Kill, "p-3", true, Crashed, "crash")
	h.post(Kill, "p-4", true, Crashed, "crash")
	last := Event{Process: 1, Session: 1, ID: Kill, Token: "p-5", Crashes: 2, Limit: 2}
	asked, dead := last, last
	asked.Kind, asked.Step, asked.Isolated, asked.Code = Stepped, StepStart, true, ReplyExhausted
	dead.Kind, dead.Decision, dead.Cause, dead.Unrun, dead.Remote = Decided, DeadLetter, "crashed", true, true
	h.add(asked)
	h.add(dead)
	h.post(Succeed, "p-6", true, OK, Ack)
	h.add(Event{Kind: Stopped, Process: 1})
	h.add(Event{Kind: Exited, Process: 1})
	h.add(Event{Kind: Quiet})
	h.add(Event{Kind: Drained})
	h.add(Event{Kind: Dead, ID: Kill, Outcome: "rejected"})
	h.add(Event{Kind: Kept, Key: Kill, ID: Kill, Record: &Record{State: "exhausted", Crashes: 2, Tokens: ";p-3=c;p-4=c"},
		TTL: time.Hour})
	return h
}

// post adds a request, isolated or not, how it ended, and what the consumer decided.
func (h *history) post(id, token string, isolated bool, outcome, decision string) {
	base := Event{ID: id, Token: token, Process: 1, Session: 1}
	add := func(kind Kind, change func(*Event)) {
		e := base
		e.Kind = kind
		change(&e)
		h.add(e)
	}
	if isolated {
		add(Stepped, func(e *Event) { e.Step, e.Code, e.Isolated = StepStart, ReplyRun, true })
	}
	add(Began, func(e *Event) { e.Remote = true })
	add(Ended, func(e *Event) { e.Outcome = outcome })
	if isolated && decision == Ack {
		add(Stepped, func(e *Event) { e.Step, e.Code = StepEnd, "ended" })
	}
	add(Decided, func(e *Event) { e.Decision, e.Remote = decision, true })
}

func TestPushedHistory(t *testing.T) {
	if got := Check(pushed()).Broken(); len(got) > 0 {
		t.Errorf("violated: %v", got)
	}
}

// TestRemoteRules has what only a request to another process excuses, and what nothing does.
func TestRemoteRules(t *testing.T) {
	for _, tc := range []struct {
		name, want string // want is empty: nothing is violated
		spoil      func(h *history)
	}{
		{"not a request", "bound", func(h *history) { // each is a handler that ended, and ran again
			for i := range *h {
				(*h)[i].Remote = false
			}
		}},
		{"a response that was not sent", "", func(h *history) { h.change(Ended, "p-2", func(e *Event) { e.Outcome = OK }) }},
		{"a response that was sent", "bound", func(h *history) {
			h.change(Ended, "p-2", func(e *Event) { e.Outcome = OK })
			h.change(Decided, "p-2", func(e *Event) { e.Decision = Ack })
		}},
		{"a crash beside another request", "isolated", func(h *history) {
			h.change(Kept, Kill, func(e *Event) { e.Record.Tokens = ";p-1=c;p-4=c" })
		}},
		{"a crash of a request that ended well", "isolated", func(h *history) {
			h.change(Ended, "p-3", func(e *Event) { e.Outcome = Failed })
			h.change(Decided, "p-3", func(e *Event) { e.Decision = Retry })
		}},
		{"after a request that could not be sent", "", func(h *history) {
			h.without(Began, "p-2")
			h.without(Ended, "p-2")
			h.change(Decided, "p-2", func(e *Event) { e.Decision = "not-counted" })
		}},
		{"a step for a first success", "free", func(h *history) {
			h.without(Began, "p-2")
			h.without(Ended, "p-2")
			h.without(Decided, "p-2")
		}},
		{"the first delivery of a copy", "", func(h *history) {
			h.add(Event{Kind: Published, ID: Succeed, Do: Succeed, Seq: 2, Outcome: Undecided})
			h.post(Succeed, "p-7", false, OK, Ack)
		}},
		{"another first delivery without a copy", "answered", func(h *history) { h.post(Succeed, "p-7", false, OK, Ack) }},
		{"a killer posted too often", "bound", func(h *history) {
			for i := range 3 {
				h.post(Kill, fmt.Sprintf("p-9%d", i), true, Crashed, "crash")
			}
		}},
		{"another beside the isolated one", "isolated", func(h *history) {
			h.change(Ended, "p-1", func(e *Event) { e.At = e.At.Add(time.Minute) })
			h.without(Decided, "p-1")
		}},
		{"an endpoint that learns late that its request is over", "", func(h *history) {
			h.change(Ended, "p-1", func(e *Event) { e.At = e.At.Add(time.Millisecond * 8) })
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := pushed()
			tc.spoil(&h)
			r := Check(h)
			switch {
			case tc.want == "" && len(r.Broken()) > 0:
				t.Errorf("violated: %q", r.Broken())
			case tc.want != "" && r.Violations[tc.want].Count == 0:
				t.Errorf("%s was not reported, only %q", tc.want, r.Broken())
			}
		})
	}
}

// TestLateResponse has a request end well, and be counted when its deadline may have been over, or before.
func TestLateResponse(t *testing.T) {
	for _, tc := range []struct {
		after time.Duration // the request began
		want  int           // violations
	}{{3 * time.Second, 0}, {time.Second / 2, 1}} {
		h := pushed()
		h.change(Setup, "", func(e *Event) { e.Plan.HandlerTimeout = 3 * time.Second })
		h.post(Succeed, "p-7", true, OK, Retry)
		began := h[len(h)-3].At
		h.add(Event{Kind: Stepped, ID: Succeed, Token: "p-7", Process: 1, Session: 1, Step: StepFail, Code: ReplyRequeue,
			At: began.Add(tc.after)})
		if f := Check(h).Violations["causes"]; f.Count != tc.want {
			t.Errorf("after %v: %+v", tc.after, f)
		}
	}
}
