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
