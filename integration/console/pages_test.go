package console

import (
	"bufio"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/internal/proctest"
	"github.com/strikesmq/strikes/topology"
)

// act follows the link of a verb on the page, gives a reason and confirms.
func (b *tab) act(link, reason string) {
	b.t.Helper()
	b.follow(link)
	b.fill("#why", reason)
	if status := b.follow("main form button"); status != http.StatusOK {
		b.t.Errorf("%s at %s: status %d\n%s", link, b.url(), status, b.text("main"))
	}
}

// TestPause pauses the consumers of a queue, and lets them go on.
func TestPause(t *testing.T) {
	t.Parallel()
	p := newPlant(t)
	p.declare(topology.Spec{Queue: "stock"})
	p.consume(consumer.Consumer{Queue: "stock"})
	s := p.serve(nil)
	b := newTab(t)
	b.visit(s.at("queue", "queue", "stock"))
	b.act("a[href*='verb=pause']:not([href*=undo])", "the database moves")
	b.sees("the database moves")
	proctest.Eventually(t, time.Minute, "consumers to stop", func() bool { return p.consumers("stock") == 0 })
	p.publish("stock", order("s-1", "", "", "{}"))
	if n := p.depth("stock"); n != 1 {
		t.Errorf("%d messages are ready in a paused queue, want 1", n)
	}
	b.visit(s.url)
	b.sees("paused")
	b.visit(s.at("queue", "queue", "stock"))
	b.act("a[href*='verb=pause'][href*=undo]", "it has moved")
	proctest.Eventually(t, time.Minute, "consumers to go on", func() bool {
		return p.consumers("stock") == 1 && p.depth("stock") == 0
	})

	b.visit(s.at("audit", "queue", "stock"))
	for _, part := range []string{"pause", "resume", "the database moves", "it has moved"} {
		b.sees(part)
	}
	res := s.ask(http.MethodGet, s.at("audit.ndjson", "queue", "stock"), nil, nil)
	var verbs []string
	for lines := bufio.NewScanner(res.Body); lines.Scan(); {
		var e struct{ Verb, Actor, Reason, Result string }
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil || e.Actor == "" || e.Reason == "" || e.Result == "" {
			t.Errorf("a line of the audit: %s: %v", lines.Text(), err)
		}
		verbs = append(verbs, e.Verb)
	}
	if got := strings.Join(verbs, ","); got != "resume,pause" {
		t.Errorf("the audit lists %s", got)
	}
}

// TestBackAndReload filters, follows a link, goes back and reloads. Each page shows the same as before.
func TestBackAndReload(t *testing.T) {
	t.Parallel()
	p := newPlant(t)
	p.declare(topology.Spec{Queue: "orders"}, topology.Spec{Queue: "payments", Type: topology.Classic})
	p.kill("payments", payments(6)...)
	for _, script := range []bool{true, false} {
		s := p.serve(nil)
		b := newTab(t)
		if !script {
			b.withoutScript()
		}
		b.visit(s.url)
		b.sees("orders")
		b.fill("#find", "pay")
		b.follow("main form button")
		filtered := b.url()
		if text := b.text("main table"); strings.Contains(text, "orders") || !strings.Contains(text, "payments") {
			t.Errorf("script %v: the filter pay shows %s", script, text)
		}
		b.follow("main table tbody a")
		b.sees("6 dead letters")
		b.load(chromedp.NavigateBack())
		if b.url() != filtered || strings.Contains(b.text("main table"), "orders") {
			t.Errorf("script %v: Back leads to %s, which shows %s", script, b.url(), b.text("main table"))
		}
		b.load(chromedp.Reload())
		if got := run(b, chromedp.Evaluate[string]("document.querySelector('#find').value")); b.url() != filtered ||
			got != "pay" {
			t.Errorf("script %v: after a reload the filter at %s is %q", script, b.url(), got)
		}
	}
}

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
