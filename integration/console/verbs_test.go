package console

import (
	"bufio"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

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

// TestSkip dead-letters the message that blocks an ordered queue, although it waits for its backoff.
func TestSkip(t *testing.T) {
	t.Parallel()
	p := newPlant(t)
	p.declare(topology.Spec{Queue: "orders", SingleActiveConsumer: true})
	p.block("orders", 5)
	s := p.serve(nil)
	b := newTab(t)
	b.visit(s.at("queue", "queue", "orders"))
	b.sees("order-7301")
	b.act("a[href*='verb=skip']", "the pallet is gone")
	b.sees("order-7301")
	proctest.Eventually(t, time.Minute, "the message to be dead-lettered, and those behind it handled", func() bool {
		return p.depth("orders.dlq") == 1 && p.depth("orders") == 0
	})
	b.sees("1 dead letter")
}

// TestReasonIsRequired sends every form without its reason, past the browser's own check.
func TestReasonIsRequired(t *testing.T) {
	t.Parallel()
	p := newPlant(t)
	p.declare(topology.Spec{Queue: "orders", SingleActiveConsumer: true})
	p.block("orders", 0)
	s := p.serve(nil)
	for path, verbs := range writing {
		for _, verb := range verbs {
			at := s.at(strings.TrimPrefix(path, "/"), "verb", verb, "queue", "orders", "id", "order-7301")
			res := s.ask(http.MethodPost, at, map[string][]string{"number": {"1"}, "why": {"  "}}, nil)
			if res.StatusCode != http.StatusUnprocessableEntity {
				t.Errorf("%s without a reason: status %d, want 422", at, res.StatusCode)
			}
		}
	}
}
