package soak

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/strikesmq/strikes/integration/internal/fleet"
	"github.com/strikesmq/strikes/internal/audit"
	"github.com/strikesmq/strikes/internal/servertest"
)

var need = servertest.Need

// TestMain makes this test binary a consumer process where it is started as one.
func TestMain(m *testing.M) {
	fleet.Main(runWorker)
	os.Exit(m.Run())
}

// TestOutage is a short make soak-outage.
func TestOutage(t *testing.T) {
	servertest.Long(t)
	args := []string{"-outage", "10s", "-messages", "1500", "-concurrency", "4", "-seed", "3"}
	if url := os.Getenv("AMQP_URL"); url != "" {
		args = append(args, "-amqp", url)
	}
	cfg, err := parseFlags(args)
	need(t, err)
	r, err := judged(t.Context(), cfg, t.TempDir())
	need(t, err)
	if broken := r.Broken(); len(broken) > 0 {
		t.Errorf("violated: %q", broken)
	}
	if o := r.Outage; o == nil || o.Good < 500 || o.Poison < poisonInARow || o.Attempts < outageBreaker {
		t.Errorf("the outage did not meet the messages: %+v", o)
	}
}

// outage is the history of two good messages and two that always fail. The service that all need is away, and is there
// again before the second good message is handled in the second process.
func outage(change func(h *history)) history {
	h := history{}
	for i, do := range []string{audit.Succeed, audit.Succeed, audit.Poison, audit.Poison} {
		h.add(audit.Event{Kind: audit.Published, ID: fmt.Sprint(do, i), Do: do, Seq: i + 1, Outcome: audit.Confirmed})
	}
	for number := 1; number <= 2; number++ {
		h.add(audit.Event{Kind: audit.Opened, Process: number, Session: 1})
	}
	h.run("succeed0", 1, audit.OK)
	h.add(audit.Event{Kind: audit.Fault, Fault: audit.DependencyAway})
	h.run("succeed1", 2, audit.Failed)
	h.uncounted("poison2", 1)
	h.uncounted("succeed1", 1)
	h.add(audit.Event{Kind: audit.FaultOver, Fault: audit.DependencyAway})
	h.run("succeed1", 2, audit.OK)
	h.published("later", audit.Succeed, audit.Confirmed)
	h.run("later", 1, audit.OK)
	for _, id := range []string{"poison2", "poison3"} {
		for range limit {
			h.run(id, 1, audit.Failed)
		}
		h.dead(id)
	}
	change(&h)
	h.add(audit.Event{Kind: audit.Quiet})
	h.add(audit.Event{Kind: audit.Drained})
	return h
}

// uncounted adds a run whose failure is not counted.
func (h *history) uncounted(id string, process int) {
	h.run(id, process, audit.Failed)
	h.add(audit.Event{Kind: audit.Uncounted, ID: id, Token: (*h)[len(*h)-1].Token, Process: process})
}

// success is the event of the success in the second process.
func (h history) success() *audit.Event {
	i := slices.IndexFunc(h, func(e audit.Event) bool { return e.Process == 2 && e.Outcome == audit.OK })
	return &h[i]
}

// good adds n messages, one after the other. Each fails some times and is counted, and then succeeds.
func (h *history) good(n, fails int) {
	for i := range n {
		id := fmt.Sprint("more", i)
		h.published(id, audit.Succeed, audit.Confirmed)
		for range fails {
			h.run(id, 1, audit.Failed)
		}
		h.run(id, 1, audit.OK)
	}
}

// TestOutageRules changes the history of a fleet that goes through an outage in one place.
func TestOutageRules(t *testing.T) {
	for name, tc := range map[string]struct {
		want   string // rule; empty: none is violated
		change func(h *history)
	}{
		"works": {"", func(*history) {}},
		"one of the two good messages is dead-lettered": {"innocents", func(h *history) { h.dead("succeed1") }},
		"too much is counted": {"counted", func(h *history) {
			h.good(outageBreaker, 1)
		}},
		"a message fails again before eight have failed": {"", func(h *history) {
			h.good(outageBreaker, 2)
		}},
		"poison has an attempt too many": {"exact", func(h *history) { h.run("poison3", 1, audit.Failed) }},
		"poison is dead-lettered early": {"exact", func(h *history) {
			*h = append(*h, audit.Event{Kind: audit.Published, ID: "poison4", Do: audit.Poison, Seq: 9,
				Outcome: audit.Confirmed, At: (*h)[len(*h)-1].At})
			for range limit {
				h.uncounted("poison4", 1)
			}
			h.dead("poison4")
		}},
		"a process goes on too late": {"resumed", func(h *history) {
			h.success().At = h.success().At.Add(resumedWithin)
		}},
		"a process goes on with a message that always fails": {"", func(h *history) {
			h.success().At = h.success().At.Add(resumedWithin)
			for i := range *h {
				if e := &(*h)[i]; e.ID == "poison2" && e.Kind != audit.Dead {
					e.Process = 2
				}
			}
		}},
		"a process loses its session, and with it the word that an attempt was not counted": {"", func(h *history) {
			h.run("poison3", 2, audit.Failed)
			h.add(audit.Event{Kind: audit.Lost, Process: 2, Session: 1})
		}},
		"a process goes on soon after another session": {"", func(h *history) {
			at := h.success().At.Add(2 * resumedWithin)
			h.success().At = at
			h.add(audit.Event{Kind: audit.Opened, Process: 2, Session: 2, At: at.Add(-time.Second)})
		}},
		"a process never goes on": {"resumed", func(h *history) { h.success().Outcome = audit.Cancelled }},
		"the service was never away": {"resumed", func(h *history) {
			h.without(audit.Fault, "")
			h.without(audit.FaultOver, "")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			of := strict
			of.ordered, of.outage = false, time.Minute
			r := check(of, outage(tc.change))
			if tc.want == "" && len(r.Broken()) > 0 {
				t.Errorf("found %q", r.Broken())
			}
			if tc.want != "" && r.Violations[tc.want].Count == 0 {
				t.Errorf("%s is not found, only %q", tc.want, r.Broken())
			}
			if o := r.Outage; name == "works" && (o == nil || o.Good != 2 || o.Counted != 1 || o.Attempts != 3 ||
				o.ResumedFirst <= 0 || o.ResumedAll < o.ResumedFirst) {
				t.Errorf("figures: %+v", o)
			}
		})
	}
}
