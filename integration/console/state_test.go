package console

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/strikesmq/strikes/topology"
)

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
