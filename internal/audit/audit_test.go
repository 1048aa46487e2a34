package audit

import (
	"fmt"
	"maps"
	"slices"
	"strings"
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

// attempt adds a run of process 1, with the steps that a redelivery and a failure take.
func (h *history) attempt(id, token string, redelivered bool, outcome string, counted int) {
	base := Event{ID: id, Token: token, Process: 1, Session: 1}
	add := func(kind Kind, change func(*Event)) {
		e := base
		e.Kind = kind
		change(&e)
		h.add(e)
	}
	step := func(name, code string) {
		add(Stepped, func(e *Event) { e.Step, e.Code, e.Failures, e.Limit = name, code, counted, 4 })
	}
	if redelivered {
		step("start", "run")
	}
	add(Began, func(e *Event) { e.Redelivered = redelivered })
	add(Ended, func(e *Event) { e.Outcome = outcome })
	decide := func(decision, cause string) {
		add(Decided, func(e *Event) { e.Decision, e.Cause, e.Failures, e.Limit = decision, cause, counted, 4 })
	}
	switch {
	case outcome == OK && redelivered:
		step("end", "ended")
		decide("ack", "")
	case outcome == OK:
		decide("ack", "")
	case counted == 4:
		step("fail", "exhausted")
		decide("dead-letter", "failed")
	default:
		step("fail", "requeue")
		decide("retry", "failed")
		decide("requeue", "")
	}
}

// isolated adds an isolated attempt that kills its process.
func (h *history) isolated(id, token string, process int) {
	base := Event{ID: id, Token: token, Process: process, Session: 1}
	opened, started, ran := base, base, base
	opened.Kind = Opened
	started.Kind, started.Step, started.Code, started.Isolated = Stepped, "start", "run", true
	ran.Kind, ran.Redelivered = Began, true
	h.add(opened)
	h.add(started)
	h.add(ran)
	h.add(Event{Kind: Exited, Process: process, Err: "signal: killed"})
}

// healthy has a message that succeeds, one that fails once, a poisonous one and a killer.
func healthy() history {
	h := history{}
	h.add(Event{Kind: Setup, Plan: &Plan{MaxRetries: 3, HandlerTimeout: time.Second, MostHeld: 10 * time.Second,
		DrainWithin: 61 * time.Second}})
	for i, do := range []string{Succeed, Fail, Poison, Kill} {
		h.add(Event{Kind: Published, ID: do, Do: do, Seq: i + 1, Outcome: Confirmed})
	}
	h.add(Event{Kind: Opened, Process: 1, Session: 1})
	h.attempt(Succeed, "p-1", false, OK, 0)
	h.attempt(Fail, "p-2", false, Failed, 1)
	h.attempt(Fail, "p-3", true, OK, 1)
	for i := range 4 {
		h.attempt(Poison, fmt.Sprintf("p-%d", 4+i), i > 0, Failed, 1+i)
	}
	h.add(Event{Kind: Stopped, Process: 1})
	h.add(Event{Kind: Exited, Process: 1})
	for i := range 4 {
		h.isolated(Kill, fmt.Sprintf("k%d-1", i), 2+i)
	}
	h.add(Event{Kind: Stepped, ID: Kill, Token: "l-1", Process: 6, Session: 1, Step: "start", Isolated: true,
		Code: "exhausted", Crashes: 4, Limit: 4})
	h.add(Event{Kind: Decided, ID: Kill, Token: "l-1", Process: 6, Session: 1, Decision: "dead-letter", Cause: "crashed",
		Unrun: true, Crashes: 4, Limit: 4})
	h.add(Event{Kind: Stopped, Process: 6})
	h.add(Event{Kind: Exited, Process: 6})
	h.add(Event{Kind: Quiet})
	h.add(Event{Kind: Drained})
	h.add(Event{Kind: Dead, ID: Poison, Outcome: "rejected"})
	h.add(Event{Kind: Dead, ID: Kill, Outcome: "rejected"})
	h.add(Event{Kind: Kept, Key: "index", TTL: time.Hour})
	h.add(Event{Kind: Kept, Key: Fail, ID: Fail, Record: &Record{State: "done", Failures: 1, Tokens: ";p-2=f;p-3=e"},
		TTL: time.Minute})
	h.add(Event{Kind: Kept, Key: Poison, ID: Poison, Record: &Record{State: "exhausted", Failures: 4,
		Tokens: ";p-4=f;p-5=f;p-6=f;p-7=f"}, TTL: time.Hour})
	h.add(Event{Kind: Kept, Key: Kill, ID: Kill, Record: &Record{State: "exhausted", Crashes: 4,
		Tokens: ";k0-1=c;k1-1=c;k2-1=c;k3-1=c"}, TTL: time.Hour})
	return h
}

// TestCopiesInOneSession: a message that was published twice is delivered twice, neither time as redelivered.
func TestCopiesInOneSession(t *testing.T) {
	twice := history{}
	for _, e := range healthy() {
		if e.Kind == Published && e.ID == Succeed {
			e.Outcome = Undecided
		}
		e.At = time.Time{}
		twice.add(e)
		if e.Kind == Decided && e.ID == Succeed {
			twice.attempt(Succeed, "p-copy", false, OK, 0)
		}
	}
	if found := Check(twice).Violations; len(found["answered"].Example) > 0 {
		t.Error(found["answered"])
	}
}

// change applies to the events of a kind about an id or token.
func (h history) change(kind Kind, of string, do func(*Event)) {
	for i := range h {
		if h[i].Kind == kind && (h[i].ID == of || h[i].Token == of || h[i].Key == of || of == "") {
			do(&h[i])
		}
	}
}

// without drops the events of a kind about an id or token.
func (h *history) without(kind Kind, of string) {
	*h = slices.DeleteFunc(*h, func(e Event) bool { return e.Kind == kind && (e.ID == of || e.Token == of || of == "") })
}

// TestRules changes a healthy history in one place, and wants that rule named, or none.
func TestRules(t *testing.T) {
	for _, tc := range []struct {
		name, want string // rule; empty: none is violated
		change     func(h *history)
	}{
		{"healthy", "", func(*history) {}},
		{"a run again after a lost session", "", func(h *history) {
			h.add(Event{Kind: Lost, Process: 1, Session: 1})
			h.attempt(Succeed, "p-99", true, OK, 0)
		}},
		{"retried in place", "", func(h *history) { h.notRedelivered(true) }},
		{"a copy, while another waits for its retry", "", func(h *history) {
			h.add(Event{Kind: Published, ID: Fail, Do: Fail, Outcome: Undecided})
			*h = slices.DeleteFunc(*h, func(e Event) bool {
				return e.Token == "p-2" && e.Decision == Requeue || e.Token == "p-3" && e.Kind == Stepped
			})
			h.change(Began, "p-3", func(e *Event) { e.Redelivered = false })
			h.change(Kept, Fail, func(e *Event) { e.Record.Tokens = ";p-2=f" })
		}},
		{"a step at a first delivery, after a requeue", "free", func(h *history) { h.notRedelivered(false) }},
		{"isolated, beside a handler that was abandoned", "", func(h *history) { h.abandoned(true) }},
		{"isolated alone, beside a handler that was abandoned", "isolated", func(h *history) { h.abandoned(false) }},
		{"an abandoned handler that was isolated itself", "", func(h *history) {
			h.change(Began, "k0-1", func(e *Event) {
				first := Event{ID: Poison, Token: "k0-0", Process: 2, Session: 1, Kind: Stepped, Step: StepStart,
					Code: ReplyRun, Isolated: true, At: e.At.Add(-time.Hour)}
				h.add(first)
				first.Kind, first.Step, first.Code, first.Redelivered = Began, "", "", true
				h.add(first)
			})
			h.change(Stepped, "k0-1", func(e *Event) { e.Isolated, e.Beside = false, true })
			h.change(Kept, Kill, func(e *Event) {
				e.Record.Crashes, e.Record.Tokens = 3, strings.Replace(e.Record.Tokens, ";k0-1=c", "", 1)
			})
			h.add(Event{Kind: Lost, Process: 1, Session: 1})
			h.isolated(Kill, "k9-1", 9)
			h.change(Kept, Kill, func(e *Event) { e.Record.Crashes, e.Record.Tokens = 4, e.Record.Tokens+";k9-1=c" })
		}},
		{"lost", "lost", func(h *history) {
			h.without(Began, Succeed)
			h.without(Ended, Succeed)
			h.without(Decided, Succeed)
		}},
		{"a dead letter lost", "lost", func(h *history) { h.without(Dead, Poison) }},
		{"acked though it failed", "lost", func(h *history) {
			h.change(Ended, "p-1", func(e *Event) { e.Outcome = Failed })
		}},
		{"dead-lettered too early", "causes", func(h *history) {
			h.change(Stepped, "p-4", func(e *Event) { e.Code = "" })
			h.change(Kept, Poison, func(e *Event) { e.Record.Tokens, e.Record.Failures = ";p-5=f;p-6=f;p-7=f", 3 })
		}},
		{"dead-lettered before the limit", "causes", func(h *history) {
			h.change(Decided, "p-7", func(e *Event) { e.Failures = 3 })
		}},
		{"dead-lettered by the broker", "causes", func(h *history) {
			h.change(Dead, Poison, func(e *Event) { e.Outcome = "delivery_limit" })
		}},
		{"counted for a stop", "causes", func(h *history) {
			h.change(Ended, "p-2", func(e *Event) { e.Outcome = Cancelled })
		}},
		{"counted for a success", "causes", func(h *history) { h.change(Ended, "p-2", func(e *Event) { e.Outcome = OK }) }},
		{"a run too many", "bound", func(h *history) {
			for i := range 3 {
				h.isolated(Kill, fmt.Sprintf("m%d-1", i), 7+i)
			}
		}},
		{"ran again after an ack", "bound", func(h *history) { h.attempt(Succeed, "p-99", true, OK, 0) }},
		{"a failure counted twice", "once", func(h *history) {
			h.change(Kept, Fail, func(e *Event) { e.Record.Failures = 2 })
		}},
		{"a token kept twice", "once", func(h *history) {
			h.change(Kept, Fail, func(e *Event) { e.Record.Failures, e.Record.Tokens = 2, ";p-2=f;p-2=f" })
		}},
		{"acted on twice", "once", func(h *history) {
			h.add(Event{Kind: Decided, ID: Fail, Token: "p-2", Process: 1, Session: 1, Decision: "retry", Cause: "failed"})
		}},
		{"failed attempts beyond the limit", "once", func(h *history) {
			h.change(Kept, Kill, func(e *Event) { e.Record.Crashes, e.Record.Tokens = 5, e.Record.Tokens+";x-1=c" })
		}},
		{"a crash of a process that lives", "isolated", func(h *history) {
			h.change(Kept, Fail, func(e *Event) {
				e.Record.Crashes, e.Record.Tokens = 1, e.Record.Tokens+";p-3=c"
				e.Record.Tokens = strings.Replace(e.Record.Tokens, ";p-3=e", "", 1)
			})
		}},
		{"a crash beside another run", "isolated", func(h *history) { h.besideTheKiller() }},
		{"a crash of the next one's", "isolated", func(h *history) {
			at := slices.IndexFunc(*h, func(e Event) bool { return e.Kind == Exited && e.Process == 2 })
			*h = slices.Insert(*h, at,
				Event{Kind: Ended, At: (*h)[at].At, ID: Kill, Token: "k0-1", Process: 2, Session: 1, Outcome: OK},
				Event{Kind: Began, At: (*h)[at].At, ID: Poison, Token: "k0-2", Process: 2, Session: 1})
		}},
		{"a crash not taken back", "isolated", func(h *history) {
			h.add(Event{Kind: Stepped, ID: Kill, Token: "k0-1", Process: 2, Session: 1, Step: "end", Code: "ended"})
		}},
		{"a crash beside an abandoned handler", "isolated", func(h *history) {
			h.change(Stepped, "k0-1", func(e *Event) { e.Isolated, e.Beside = false, true })
		}},
		{"a healthy message dead-lettered", "innocents", func(h *history) {
			h.add(Event{Kind: Dead, ID: Succeed, Outcome: "rejected"})
		}},
		{"out of order", "order", func(h *history) {
			h.change(Setup, "", func(e *Event) { e.Plan.Ordered = true })
			h.change(Published, Poison, func(e *Event) { e.Seq = 1 })
			h.change(Published, Succeed, func(e *Event) { e.Seq = 3 })
		}},
		{"another message's token", "own", func(h *history) {
			h.change(Kept, Fail, func(e *Event) { e.Record.Tokens += ";p-1=e" })
		}},
		{"a count that vanished", "own", func(h *history) {
			h.change(Kept, Fail, func(e *Event) { e.Record.Failures, e.Record.Tokens = 0, ";p-3=e" })
		}},
		{"ran without an answer", "answered", func(h *history) { h.change(Stepped, "p-3", func(e *Event) { e.Code = "" }) }},
		{"requeued without an answer", "answered", func(h *history) {
			h.change(Stepped, "p-2", func(e *Event) { e.Code = "" })
		}},
		{"dead-lettered without an answer", "answered", func(h *history) {
			h.change(Stepped, "p-7", func(e *Event) { e.Code = "" })
		}},
		{"spinning", "answered", func(h *history) {
			for range mostUnanswered + 1 {
				h.add(Event{Kind: Stepped, ID: Fail, Token: "p-2", Process: 1, Session: 1, Step: "fail"})
			}
		}},
		{"a step for a first success", "free", func(h *history) {
			h.add(Event{Kind: Stepped, ID: Succeed, Token: "p-1", Process: 1, Session: 1, Step: "end", Code: "ended"})
		}},
		{"a key without a TTL", "expiry", func(h *history) { h.change(Kept, "index", func(e *Event) { e.TTL = 0 }) }},
		{"a record left live", "expiry", func(h *history) { h.change(Kept, Fail, func(e *Event) { e.Record.State = "" }) }},
		{"never drained", "drained", func(h *history) { h.without(Drained, "") }},
		{"drained too late", "drained", func(h *history) {
			h.change(Quiet, "", func(e *Event) { e.At = e.At.Add(-62 * time.Second) })
		}},
		{"not drained", "drained", func(h *history) { h.add(Event{Kind: Undrained, Err: "3 messages are ready"}) }},
		{"acked and dead-lettered", "settled", func(h *history) {
			h.add(Event{Kind: Dead, ID: Succeed, Outcome: "rejected"})
		}},
		{"dead-lettered twice", "settled", func(h *history) { h.add(Event{Kind: Dead, ID: Poison, Outcome: "rejected"}) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := healthy()
			tc.change(&h)
			slices.SortStableFunc(h, func(a, b Event) int { return a.At.Compare(b.At) })
			r := Check(h)
			if tc.want == "" && len(r.Broken()) > 0 {
				t.Errorf("violated: %q", r.Broken())
			}
			if tc.want == "" {
				return
			}
			if r.Violations[tc.want].Count == 0 || r.Violations[tc.want].Example == "" {
				t.Errorf("%s was not reported, only %q", tc.want, r.Broken())
			}
		})
	}
}

// notRedelivered has the retry of a message begin without the flag that it was redelivered: in place, or not.
func (h *history) notRedelivered(inPlace bool) {
	*h = slices.DeleteFunc(*h, func(e Event) bool { return inPlace && e.Token == "p-2" && e.Decision == Requeue })
	h.change(Began, "p-3", func(e *Event) { e.Redelivered = false })
	h.change(Setup, "", func(e *Event) { e.Plan.Ordered = inPlace })
}

// abandoned has an attempt run isolated while a handler of its process runs on past its deadline. The product knows of
// that if the START says beside.
func (h *history) abandoned(beside bool) {
	h.add(Event{Kind: Published, ID: Deaf, Do: Deaf, Outcome: Unsent})
	h.change(Began, "p-3", func(e *Event) {
		h.add(Event{ID: Deaf, Token: "p-0", Process: 1, Session: 1, Kind: Began, At: e.At.Add(-time.Hour)})
	})
	h.change(Stepped, "p-3", func(e *Event) {
		e.Isolated, e.Beside = e.Step == StepStart && !beside, e.Step == StepStart && beside
	})
}

// besideTheKiller has another message run in the killer's first process when it dies.
func (h *history) besideTheKiller() {
	at := slices.IndexFunc(*h, func(e Event) bool { return e.Kind == Began && e.Token == "k0-1" })
	other := (*h)[at]
	other.ID, other.Token = Succeed, "k0-2"
	*h = slices.Insert(*h, at, other)
}

// TestAllowances has runs that no fault of the message's took back, each more than the limit alone allows.
func TestAllowances(t *testing.T) {
	for name, excuse := range map[string]func(h *history){
		"session lost": func(h *history) { h.add(Event{Kind: Lost, Process: 1, Session: 1}) },
		"left": func(h *history) {
			h.add(Event{Kind: Decided, ID: Succeed, Token: "p-1", Process: 1, Session: 1, Decision: "leave"})
		},
		"broker killed": func(h *history) { h.add(Event{Kind: Fault, Fault: BrokerKill}) },
		"second copy":   func(h *history) { h.add(Event{Kind: Published, ID: Succeed, Do: Succeed, Outcome: Undecided}) },
	} {
		t.Run(name, func(t *testing.T) {
			h := healthy()
			excuse(&h)
			h.attempt(Succeed, "p-99", true, OK, 0)
			if f := Check(h).Violations["bound"]; f.Count > 0 {
				t.Errorf("a run too many: %s", f.Example)
			}
		})
	}
}

// TestAClusterTakesBack has one message run again during a fault of a node, and one when it was long over.
func TestAClusterTakesBack(t *testing.T) {
	for _, tc := range []struct {
		cluster bool
		after   time.Duration
		want    bool
	}{{true, 0, false}, {true, -2 * aftermath, true}, {false, 0, true}} {
		h := healthy()
		h.change(Setup, "", func(e *Event) { e.Plan.Cluster = tc.cluster })
		h.change(Ended, "p-1", func(e *Event) {
			h.add(Event{Kind: Fault, Fault: "partition", At: e.At.Add(tc.after)})
			h.add(Event{Kind: FaultOver, Fault: "partition", At: e.At.Add(tc.after + time.Second)})
		})
		h.attempt(Succeed, "p-99", true, OK, 0)
		for i := range h {
			if h[i].Token == "p-99" {
				h[i].At = began.Add(aftermath)
			}
		}
		slices.SortStableFunc(h, func(a, b Event) int { return a.At.Compare(b.At) })
		if f := Check(h).Violations["bound"]; f.Count > 0 != tc.want {
			t.Errorf("cluster %v, a fault %v after the first run: %+v", tc.cluster, tc.after, f)
		}
	}
}

// TestOverdueDeliveriesGoBack has one requeued that waited in vain for its turn.
func TestOverdueDeliveriesGoBack(t *testing.T) {
	for _, tc := range []struct {
		held time.Duration
		want int // violations
	}{{10 * time.Second, 0}, {10*time.Second - time.Millisecond, 0}, {9 * time.Second, 1}} {
		// a timer of Node.js may fire a millisecond early
		h := healthy()
		base := Event{ID: Succeed, Token: "p-99", Process: 1, Session: 1, At: began}
		asked, back := base, base
		asked.Kind, asked.Step, asked.Code = Stepped, "start", "suspect"
		back.Kind, back.Decision, back.Held = Decided, "requeue", tc.held
		h.add(asked)
		h.add(back)
		if f := Check(h).Violations["answered"]; f.Count != tc.want {
			t.Errorf("held for %v: %+v", tc.held, f)
		}
	}
}

// TestAFailureThatOnlyTheStoreSaw has a process die at a deaf handler's deadline before it writes down that it was
// counted, and the store lose the record.
func TestAFailureThatOnlyTheStoreSaw(t *testing.T) {
	for _, tc := range []struct {
		life time.Duration // of the process, after the handler began
		want int           // violations
	}{{time.Second, 0}, {time.Second / 2, 1}} {
		h := healthy()
		h.without(Kept, Poison)
		h.without(Ended, "p-5")
		h.without(Decided, "p-5")
		h = slices.DeleteFunc(h, func(e Event) bool { return e.Token == "p-5" && e.Step == "fail" })
		for i := range h {
			if h[i].Token == "p-5" {
				h[i].Process = 9
			}
			if h[i].Token == "p-5" && h[i].Kind == Began {
				h.add(Event{Kind: Exited, Process: 9, Err: "signal: killed", At: h[i].At.Add(tc.life)})
			}
		}
		h.add(Event{Kind: Forgot})
		if f := Check(h).Violations["causes"]; f.Count != tc.want {
			t.Errorf("killed after %v: %+v", tc.life, f)
		}
	}
}

// TestACrashThatIsReversedLate has an isolated attempt pass its deadline after its session was lost. The next START
// counts it as a crash, which is the last; then its process ends it.
func TestACrashThatIsReversedLate(t *testing.T) {
	for _, tc := range []struct {
		outcome string
		want    int // violations
	}{{TimedOut, 0}, {Cancelled, 1}} {
		h := healthy()
		h.change(Kept, Poison, func(e *Event) { e.Record.Failures, e.Record.Tokens = 3, ";p-4=f;p-5=f;p-6=f;p-7=e" })
		h.without(Decided, "p-7")
		h.change(Ended, "p-7", func(e *Event) { e.Outcome = tc.outcome })
		for i := range h {
			if h[i].Token == "p-7" && h[i].Kind == Stepped {
				h[i].Isolated = h[i].Step == StepStart
				if h[i].Step == StepFail {
					h[i].Step, h[i].Code = StepEnd, "ended"
				}
			}
		}
		h.add(Event{Kind: Lost, Process: 1, Session: 1})
		if f := Check(h).Violations["causes"]; f.Count != tc.want {
			t.Errorf("%s: %+v", tc.outcome, f)
		}
	}
}

// TestAZombieMayRunLast has a process whose session was lost run what it still held, after another had handled it for
// good.
func TestAZombieMayRunLast(t *testing.T) {
	h := healthy()
	h.attempt(Succeed, "z-1", true, OK, 0)
	for i := range h {
		if h[i].Token == "z-1" {
			h[i].Process = 9
		}
	}
	h.add(Event{Kind: Opened, Process: 9, Session: 1})
	if f := Check(h).Violations["bound"]; f.Count == 0 {
		t.Error("a run in a session that was not lost was allowed")
	}
	h.add(Event{Kind: Lost, Process: 9, Session: 1})
	if f := Check(h).Violations["bound"]; f.Count > 0 {
		t.Errorf("a zombie's run: %s", f.Example)
	}
}

// TestDeadLettersThatTheBrokerDropped allows for those of a classic queue, in the moments around its broker's death.
func TestDeadLettersThatTheBrokerDropped(t *testing.T) {
	for _, tc := range []struct {
		kind         string
		killed, back time.Duration // after the dead-lettering
		want         int           // violations
	}{
		{"classic", 500 * time.Millisecond, 3 * time.Second, 0},
		{"classic", 2 * time.Second, 3 * time.Second, 1},
		{"classic", -4 * time.Second, -time.Second, 0},
		{"classic", -9 * time.Second, -5 * time.Second, 1},
		{"quorum", 500 * time.Millisecond, 3 * time.Second, 1},
	} {
		h := healthy()
		h.without(Dead, Poison)
		h.change(Setup, "", func(e *Event) { e.Plan.Type = tc.kind })
		h.change(Opened, "", func(e *Event) { e.At = began.Add(-time.Hour) })
		h.change(Decided, "p-7", func(e *Event) {
			h.add(Event{Kind: Fault, Fault: BrokerKill, At: e.At.Add(tc.killed)})
			h.add(Event{Kind: FaultOver, Fault: BrokerKill, At: e.At.Add(tc.back)})
		})
		slices.SortStableFunc(h[1:], func(a, b Event) int { return a.At.Compare(b.At) })
		r := Check(h)
		if r.Violations["lost"].Count != tc.want || r.Dropped != 1-tc.want {
			t.Errorf("%+v: %d dropped, violations %+v", tc, r.Dropped, r.Violations["lost"])
		}
	}
}

func TestLossesOfTheStoreRenewTheLimit(t *testing.T) {
	h := healthy()
	for i := range 3 {
		h.isolated(Kill, fmt.Sprintf("m%d-1", i), 7+i)
	}
	if f := Check(h).Violations["bound"]; f.Count == 0 {
		t.Fatal("seven runs were allowed")
	}
	killed := slices.IndexFunc(h, func(e Event) bool { return e.Kind == Exited && e.Process == 2 })
	h = slices.Insert(h, killed+1, Event{Kind: Forgot, At: h[killed].At})
	if f := Check(h).Violations["bound"]; f.Count > 0 {
		t.Errorf("a loss was not allowed for: %s", f.Example)
	}
}

func TestEveryInvariantIsReported(t *testing.T) {
	r := Check(healthy())
	if got, want := len(r.Violations), len(Invariants); got != want {
		t.Errorf("%d invariants reported, want %d: %v", got, want, slices.Sorted(maps.Keys(r.Violations)))
	}
	if len(r.Broken()) > 0 || !slices.Equal(r.Unchecked, []string{"pause", "skip", "order"}) {
		t.Errorf("broken %q, unchecked %v", r.Broken(), r.Unchecked)
	}
	if r.Runs != 11 || r.Deaths != 4 || r.DeadLetters != 2 || r.Messages != 4 || r.MostRuns != 4 {
		t.Errorf("figures: %+v", r)
	}
}
