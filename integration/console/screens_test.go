package console

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/proctest"
	"github.com/strikesmq/strikes/internal/servertest"
	"github.com/strikesmq/strikes/publisher"
	"github.com/strikesmq/strikes/topology"
)

// screens are the pages of an incident.
func screens(s *site) []struct{ name, at string } {
	return []struct{ name, at string }{
		{"queues", s.url},
		{"queue", s.at("queue", "queue", "orders")},
		{"doctor", s.at("doctor", "queue", "emails")},
		{"examination", s.at("doctor")},
		{"several", s.at("change", "verb", "pause", "pick-queue", "orders") + "&pick-queue=payments"},
		{"dead", s.at("dead", "queue", "payments")},
		{"message", s.at("message", "queue", "payments", "id", "pay-4103")},
		{"replay", s.at("replay", "queue", "payments", "kind", "timed-out")},
		{"audit", s.at("audit", "queue", "orders")},
		{"change", s.at("change", "queue", "orders", "verb", "limit", "id", "order-7301")},
		{"lanes", s.at("queue", "queue", "bookings")},
		{"held", s.at("queue", "queue", "ledger")},
	}
}

// TestAccessible has axe-core look at each screen, in both colour schemes, narrow and wide.
func TestAccessible(t *testing.T) {
	servertest.Long(t)
	t.Parallel()
	p := incident(t)
	p.hold()
	s := p.serve(nil)
	b := newTab(t)
	for _, screen := range screens(s) {
		for _, scheme := range []string{"light", "dark"} {
			for _, width := range []int64{360, 1600} {
				t.Run(fmt.Sprint(screen.name, " ", scheme, " ", width), func(t *testing.T) {
					b.scheme(scheme)
					b.resize(width, 1000)
					if status := b.visit(screen.at); status != http.StatusOK {
						t.Fatalf("%s: status %d\n%s", screen.at, status, b.text("body"))
					}
					b.gone("Asking the broker")
					for _, v := range b.violations() {
						t.Errorf("%s: %s", screen.at, v)
					}
					if wider := b.overflow(); wider > 0 {
						t.Errorf("%s is %d px wider than the window", screen.at, wider)
					}
				})
			}
		}
	}
}

var pictures = flag.String("screenshots", "", "write pictures of the screens to this `DIR`")

// TestScreenshots writes the pictures of docs/console.md.
func TestScreenshots(t *testing.T) {
	t.Parallel()
	if *pictures == "" {
		t.Skip("make screenshots sets -screenshots")
	}
	p := incident(t)
	p.hold()
	s := p.serve(nil)
	b := newTab(t)
	for _, screen := range screens(s) {
		for _, look := range []struct {
			suffix, scheme string
			width, height  int64
		}{{"", "light", 1280, 800}, {"-dark", "dark", 1280, 800}, {"-narrow", "light", 390, 844}, {"-narrow-dark",
			"dark", 390, 844}} {
			b.scheme(look.scheme)
			b.resize(look.width, look.height)
			b.visit(screen.at)
			b.gone("Asking the broker")
			name := filepath.Join(*pictures, screen.name+look.suffix+".png")
			need(t, os.WriteFile(name, run(b, chromedp.CaptureScreenshot()), 0o644))
		}
	}
}

// booking is a message of a lane.
func booking(id, lane string, cause counter.Cause) publisher.Message {
	m := order(id, cause, "the account is locked", "{}")
	m.Headers["account"] = lane
	return m
}

func accountOf(d amqp.Delivery) string { return fmt.Sprint(d.Headers["account"]) }

// lanes is a consumer that holds lanes.
func lanes(queue string, handler func(context.Context, amqp.Delivery) error) consumer.Consumer {
	return consumer.Consumer{Queue: queue, Ordered: true, HoldLanes: true, Lane: accountOf, Concurrency: 8, MaxRetries: -1,
		Handler: handler}
}

// hold has dead letters hold two lanes of a queue, and an exhausted message hold a queue without lanes.
func (p *plant) hold() {
	p.t.Helper()
	p.declare(topology.Spec{Queue: "bookings", SingleActiveConsumer: true}, topology.Spec{Queue: "ledger",
		SingleActiveConsumer: true})
	p.publish("bookings", booking("booking-310", "DE-2210", counter.CauseRejected), booking("booking-311", "DE-2210", ""),
		booking("booking-312", "DE-2210", ""),
		booking("booking-313", "FR-0417", counter.CauseRejected))
	p.consume(lanes("bookings", handle))
	p.publish("ledger", booking("entry-88", "", counter.CauseRejected), booking("entry-89", "", ""))
	p.consume(consumer.Consumer{Queue: "ledger", Ordered: true, HoldLanes: true, MaxRetries: -1})
	proctest.Eventually(p.t, patience, "two blocked lanes", func() bool { return p.depth("bookings.dlq") == 4 })
	proctest.Eventually(p.t, patience, "a message that holds its queue", func() bool {
		now, err := p.counter.Admin().State(p.t.Context(), p.vhost, "ledger")
		return err == nil && now.Paused != nil && now.Paused.Holding != nil
	})
}
