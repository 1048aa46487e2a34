package soak

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/strikesmq/strikes/internal/audit"
)

// history is written by tests, a tick an event.
type history []audit.Event

const tick = 400 * time.Millisecond

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func (h *history) add(e audit.Event) {
	if e.At.IsZero() {
		e.At = noon.Add(time.Duration(len(*h)) * tick)
	}
	*h = append(*h, e)
}

// run adds a run that ends.
func (h *history) run(id string, process int, outcome string) {
	e := audit.Event{Kind: audit.Began, ID: id, Token: fmt.Sprintf("t%d", len(*h)), Process: process, Session: 1}
	h.add(e)
	e.Kind, e.Outcome = audit.Ended, outcome
	h.add(e)
}

// kill adds a run that kills its process.
func (h *history) kill(id string, process int) {
	h.add(audit.Event{Kind: audit.Opened, Process: process, Session: 1})
	h.run(id, process, "")
	*h = (*h)[:len(*h)-1]
	h.add(audit.Event{Kind: audit.Exited, Process: process, Err: "signal: killed"})
}

func (h *history) dead(id string) {
	h.add(audit.Event{Kind: audit.Decided, ID: id, Process: 1})
	h.add(audit.Event{Kind: audit.Dead, ID: id, Outcome: audit.Rejected})
}

func (h *history) without(kind audit.Kind, id string) {
	*h = slices.DeleteFunc(*h, func(e audit.Event) bool { return e.Kind == kind && (id == "" || e.ID == id) })
}

// variant lists the defects of a consumer.
type variant struct {
	loses     bool // messages that fail
	acksEarly bool // before the handler runs
	tooOften  bool // it never counts
	twice     bool // it counts each failure twice
	again     bool // it runs handled messages again
	blames    bool // it counts a kill against the message beside it
	reorders  bool
	stuck     bool // the queue is never drained
}

// play is the history of a consumer with some of these defects, without faults. One message succeeds, one fails three
// times, one always fails, one kills its process, and the last one succeeds.
func play(v variant) history {
	h := history{}
	const last = "last"
	for i, do := range []string{audit.Succeed, audit.Fail, audit.Poison, audit.Kill, last} {
		e := audit.Event{Kind: audit.Published, ID: do, Do: do, Seq: i + 1, Outcome: audit.Confirmed}
		if do == last {
			e.Do = audit.Succeed
		}
		h.add(e)
	}
	h.add(audit.Event{Kind: audit.Opened, Process: 1, Session: 1})
	if v.reorders {
		h.run(last, 1, audit.OK)
	}
	h.run(audit.Succeed, 1, audit.OK)
	if v.again {
		h.run(audit.Succeed, 1, audit.OK)
	}
	limit := 4
	switch {
	case v.loses:
		limit = 1
	case v.twice:
		limit = 2
	case v.tooOften:
		limit = 7
	}
	for range min(limit, 3) {
		h.run(audit.Fail, 1, audit.Failed)
	}
	switch {
	case v.twice:
		h.dead(audit.Fail)
	case !v.loses:
		h.run(audit.Fail, 1, audit.OK)
	}
	for range limit {
		h.run(audit.Poison, 1, audit.Failed)
	}
	if !v.loses {
		h.dead(audit.Poison)
	}
	for i := range 4 {
		if h.kill(audit.Kill, 2+i); v.acksEarly {
			break
		}
	}
	if !v.acksEarly {
		h.dead(audit.Kill)
	}
	switch {
	case v.blames:
		for i := range 4 {
			h.kill(last, 6+i)
		}
		h.dead(last)
	case !v.reorders:
		h.run(last, 1, audit.OK)
	}
	h.add(audit.Event{Kind: audit.Quiet})
	if !v.stuck {
		h.add(audit.Event{Kind: audit.Drained})
	}
	return h
}

var strict = config{kind: "quorum", handlerTimeout: time.Second, ordered: true}

// TestBrokenConsumersAreFound has each rule find the consumers that break it, and no rule find one that works.
func TestBrokenConsumersAreFound(t *testing.T) {
	for name, tc := range map[string]struct {
		of   variant
		want string // rules, in their order
	}{
		"works":                         {variant{}, ""},
		"loses what fails":              {variant{loses: true}, "lost"},
		"acks early":                    {variant{acksEarly: true}, "lost"},
		"never counts":                  {variant{tooOften: true}, "bound"},
		"counts twice":                  {variant{twice: true}, "bound"},
		"runs again what was handled":   {variant{again: true}, "bound"},
		"counts the kills of others":    {variant{blames: true}, "innocents"},
		"reorders":                      {variant{reorders: true}, "order"},
		"never drains":                  {variant{stuck: true}, "drained"},
		"loses, reorders, never drains": {variant{loses: true, reorders: true, stuck: true}, "lost order drained"},
	} {
		t.Run(name, func(t *testing.T) {
			r := check(strict, play(tc.of))
			var got []string
			for _, rule := range promises {
				if f := r.Violations[rule.Name]; f.Count > 0 && f.Example != "" {
					got = append(got, rule.Name)
				}
			}
			// A lost message is never done, so all messages after it are out of order too.
			if want := strings.Fields(tc.want); !slices.Equal(got, want) &&
				!slices.Equal(slices.DeleteFunc(got, func(name string) bool { return name == "order" }), want) {
				t.Errorf("found %q, want %q: %q", got, want, r.Broken())
			}
		})
	}
}

// judged is the report on a history whose order is not promised, once its events are in the order of their times.
func (h history) judged(of config) *report {
	slices.SortStableFunc(h, func(a, b audit.Event) int { return a.At.Compare(b.At) })
	of.ordered = false
	return check(of, h)
}

// published adds a message beyond those of play.
func (h *history) published(id, do, outcome string) {
	h.add(audit.Event{Kind: audit.Published, ID: id, Do: do, Seq: 9, Outcome: outcome})
}

// TestRules changes the history of a consumer that works in one place.
func TestRules(t *testing.T) {
	killed := func(h *history) { h.add(audit.Event{Kind: audit.Fault, Fault: audit.BrokerKill}) }
	again := func(h *history) { h.run(audit.Succeed, 1, audit.OK) }
	counted := func(h *history) {
		h.add(audit.Event{Kind: audit.Fault, Fault: "sigterm"})
		h.add(audit.Event{Kind: audit.Counted, ID: audit.Succeed})
	}
	for name, tc := range map[string]struct {
		want   string // rule; empty: none is violated
		change func(h *history)
	}{
		"a dead letter lost":            {"lost", func(h *history) { h.without(audit.Dead, audit.Poison) }},
		"published and never delivered": {"lost", func(h *history) { h.published("x", audit.Succeed, audit.Confirmed) }},
		"published and perhaps not in the queue": {"", func(h *history) {
			h.published("x", audit.Succeed, audit.Undecided)
		}},
		"dead-lettered by the broker": {"bound", func(h *history) {
			h.add(audit.Event{Kind: audit.Dead, ID: audit.Poison, Outcome: "delivery_limit"})
		}},
		"rejected at its first run": {"", func(h *history) {
			h.published("x", audit.Reject, audit.Confirmed)
			h.run("x", 1, audit.Rejected)
			h.dead("x")
		}},
		"dead-lettered before its handler began": {"", func(h *history) {
			h.published("x", audit.Poison, audit.Confirmed)
			for range 3 {
				h.run("x", 1, audit.Failed)
			}
			h.add(audit.Event{Kind: audit.Asked, ID: "x", Token: "asked", Process: 2})
			h.add(audit.Event{Kind: audit.Exited, Process: 2, Err: "signal: killed"})
			h.dead("x")
		}},
		"a kill too many": {"bound", func(h *history) {
			for i := range 3 {
				h.kill(audit.Kill, 12+i)
			}
		}},
		"the store forgot before": {"", func(h *history) {
			at := slices.IndexFunc(*h, func(e audit.Event) bool { return e.Kind == audit.Exited })
			*h = slices.Insert(*h, at+1, audit.Event{Kind: audit.Forgot, At: (*h)[at].At})
			for i := range 3 {
				h.kill(audit.Kill, 12+i)
			}
		}},
		"beside an abandoned handler": {"", func(h *history) {
			for i := range 3 {
				h.add(audit.Event{Kind: audit.Began, ID: audit.Poison, Token: fmt.Sprint("a", i), Process: 12 + i,
					Session: 1, At: noon.Add(-time.Minute)})
				h.kill(audit.Kill, 12+i)
			}
			for i := range 3 { // they are of this message alone
				h.add(audit.Event{Kind: audit.Ended, Token: fmt.Sprint("a", i), Outcome: audit.Cancelled})
			}
		}},
		"its START was sent beside an abandoned handler": {"", func(h *history) {
			for i := range 3 {
				h.kill(audit.Kill, 12+i)
				token := (*h)[len(*h)-2].Token
				h.add(audit.Event{Kind: audit.Stepped, ID: audit.Kill, Token: token, Step: audit.StepStart, Beside: true,
					Code: audit.ReplyRun})
			}
		}},
		"a session lost": {"", func(h *history) {
			h.add(audit.Event{Kind: audit.Lost, Process: 1, Session: 1})
			again(h)
		}},
		"a session that another follows": {"", func(h *history) {
			h.add(audit.Event{Kind: audit.Opened, Process: 1, Session: 2})
			again(h)
		}},
		"a handler cancelled": {"", func(h *history) { h.run(audit.Succeed, 1, audit.Cancelled) }},
		"a clean stop": {"", func(h *history) {
			h.add(audit.Event{Kind: audit.Exited, Process: 1})
			again(h)
		}},
		"counted, and processes only stopped": {"innocents", func(h *history) {
			*h = slices.DeleteFunc(*h, func(e audit.Event) bool { return e.ID == audit.Kill || e.Kind == audit.Exited })
			counted(h)
		}},
		"counted, and a process died": {"", counted},
		"the broker killed":           {"", func(h *history) { killed(h); again(h) }},
		"a second copy": {"", func(h *history) {
			h.published(audit.Succeed, audit.Succeed, audit.Undecided)
			again(h)
		}},
		"a request whose endpoint died": {"", func(h *history) {
			h.add(audit.Event{Kind: audit.Fault, Fault: audit.EndpointDied})
			again(h)
			for i := range *h {
				(*h)[i].Remote = true
			}
		}},
		"a success after the deadline": {"", func(h *history) {
			again(h)
			i := slices.IndexFunc(*h, func(e audit.Event) bool { return e.Kind == audit.Ended && e.ID == audit.Succeed })
			(*h)[i].At = (*h)[i].At.Add(time.Second)
		}},
		"drained too late": {"drained", func(h *history) {
			i := slices.IndexFunc(*h, func(e audit.Event) bool { return e.Kind == audit.Drained })
			(*h)[i].At = (*h)[i].At.Add(2 * time.Minute)
		}},
		"not drained": {"drained", func(h *history) {
			h.add(audit.Event{Kind: audit.Undrained, Err: "3 messages are ready"})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			h := play(variant{})
			tc.change(&h)
			r := h.judged(strict)
			if tc.want == "" && len(r.Broken()) > 0 {
				t.Errorf("found %q", r.Broken())
			}
			if tc.want != "" && r.Violations[tc.want].Count == 0 {
				t.Errorf("%s is not found, only %q", tc.want, r.Broken())
			}
		})
	}
}

// TestAttemptsThatAreNotTold allows for an attempt of a process that died, if not all tell when they send BEGUN.
func TestAttemptsThatAreNotTold(t *testing.T) {
	for _, untold := range []bool{true, false} {
		h := play(variant{})
		h.published("x", audit.Poison, audit.Confirmed)
		for range 3 {
			h.run("x", 1, audit.Failed)
		}
		h.add(audit.Event{Kind: audit.Exited, Process: 2, Err: "signal: killed"})
		h.dead("x")
		of := strict
		if untold {
			of.languages = []string{inHTTP}
		}
		if f := h.judged(of).Violations["bound"]; f.Count > 0 == untold {
			t.Errorf("untold %v: %+v", untold, f)
		}
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
		h := play(variant{})
		h.without(audit.Dead, audit.Poison)
		for i, e := range h {
			switch {
			case e.Kind == audit.Opened:
				h[i].At = noon.Add(-time.Hour)
			case e.Kind == audit.Decided && e.ID == audit.Poison:
				h.add(audit.Event{Kind: audit.Fault, Fault: audit.BrokerKill, At: e.At.Add(tc.killed)})
				h.add(audit.Event{Kind: audit.FaultOver, Fault: audit.BrokerKill, At: e.At.Add(tc.back)})
			}
		}
		of := strict
		of.kind = tc.kind
		r := h.judged(of)
		if r.Violations["lost"].Count != tc.want || r.Dropped != 1-tc.want {
			t.Errorf("%+v: %d dropped, violations %+v", tc, r.Dropped, r.Violations["lost"])
		}
	}
}
