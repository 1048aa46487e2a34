package console

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/internal/proctest"
	"github.com/strikesmq/strikes/topology"
)

// TestReplay goes from a filter to the result in a browser, with and without script: filter, preview, reason, progress,
// result.
func TestReplay(t *testing.T) {
	t.Parallel()
	for _, script := range []bool{true, false} {
		p := newPlant(t)
		p.declare(topology.Spec{Queue: "payments", Type: topology.Classic})
		p.kill("payments", payments(12)...)
		s := p.serve(nil)
		b := newTab(t)
		if !script {
			b.withoutScript()
		}
		b.visit(s.at("dead", "queue", "payments"))
		b.fill("#error", "bank.example")
		b.follow("main form.row button")
		proctest.Eventually(t, patience, "the dead letters of the filter", func() bool {
			if !script { // a page that was not read in time stays as it is
				b.visit(b.url())
			}
			return strings.Contains(b.text("main"), "POST https://bank.example")
		})
		b.follow("main a[href*='replay']")
		b.sees("6 dead letters")
		b.fill("#why", "the bank is up again")
		p.consume(consumer.Consumer{Queue: "payments", Handler: well})
		if status := b.follow("main form.sheet button"); status != http.StatusOK {
			t.Errorf("script %v: status %d", script, status)
		}
		proctest.Eventually(t, patience, "six messages to be handled", func() bool {
			return p.depth("payments.dlq") == 6 && p.depth("payments") == 0
		})
		proctest.Eventually(t, patience, "the page to say so", func() bool {
			b.visit(b.url())
			return strings.Contains(b.text("main"), "6 of 6")
		})
		proctest.Eventually(t, patience, "replayed messages to leave the list", func() bool {
			b.visit(s.at("dead", "queue", "payments"))
			return !strings.Contains(b.text("main"), "bank.example")
		})
		b.visit(s.at("audit", "queue", "payments"))
		b.sees("the bank is up again")
	}
}

// TestReplayAfterAKill kills the console during a replay: the next console offers to go on, and no message is lost.
func TestReplayAfterAKill(t *testing.T) {
	t.Parallel()
	p := newPlant(t)
	p.declare(topology.Spec{Queue: "payments", Type: topology.Classic})
	p.kill("payments", payments(40)...)
	p.consume(consumer.Consumer{Queue: "payments", Handler: well})
	first := p.serveCommand("--allow", "replay")
	form := url.Values{"count": {"40"}, "why": {"the bank is up again"}, "rate": {"4"}}
	if res := first.ask(http.MethodPost, first.at("replay", "queue", "payments"), form,
		nil); res.StatusCode != http.StatusSeeOther {
		t.Fatalf("beginning a replay: status %d", res.StatusCode)
	}
	proctest.Eventually(t, patience, "a part to be replayed", func() bool { return p.depth("payments.dlq") < 38 })
	need(t, first.process.Kill())
	<-first.ended

	s := p.serve(nil)
	b := newTab(t)
	b.visit(s.at("replay", "queue", "payments"))
	b.sees("did not report its end")
	b.follow("main .notice a")
	b.fill("#why", "the console was killed")
	b.follow("main form.sheet button")
	proctest.Eventually(t, patience, "the rest to be handled", func() bool {
		return p.depth("payments.dlq") == 0 && p.depth("payments") == 0
	})
}
