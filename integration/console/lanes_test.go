package console

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/console"
	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/proctest"
	"github.com/strikesmq/strikes/internal/servertest"
	"github.com/strikesmq/strikes/publisher"
	"github.com/strikesmq/strikes/topology"
)

var (
	manyLanes = flag.Int("lanes", 300, "blocked lanes of TestManyLanes; 10000 is its full size")
	laneGoal  = flag.Duration("lanes.goal", 0, "fail where TestManyLanes is slower than this; 0: it only prints the times")
)

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
		pause, err := p.counter.Admin().Paused(p.t.Context(), p.vhost, "ledger")
		return err == nil && pause != nil && pause.Holding != nil
	})
}

// TestLanes replays, releases and drops a blocked lane each in a browser, with and without script. The lanes have
// hostile names.
func TestLanes(t *testing.T) {
	t.Parallel()
	for _, script := range []bool{true, false} {
		p := newPlant(t)
		p.declare(topology.Spec{Queue: "bookings", Type: topology.Classic, SingleActiveConsumer: true})
		locked, closed, wrong := hostile["script"]+hostile["turned text"], hostile["invalid UTF-8"]+strings.Repeat("x", 900),
			hostile["script"]
		p.publish("bookings", booking("b1", locked, counter.CauseRejected), booking("b2", locked, ""),
			booking("b3", locked, ""),
			booking("c1", closed, counter.CauseRejected), booking("c2", closed, ""),
			booking("d1", wrong, counter.CauseRejected), booking("d2", wrong, ""))
		stop := p.consume(lanes("bookings", handle))
		proctest.Eventually(t, patience, "the lanes to be blocked", func() bool { return p.depth("bookings.dlq") == 7 })
		stop()
		handled := make(chan string, 10)
		p.consume(lanes("bookings", func(_ context.Context, d amqp.Delivery) error {
			handled <- d.MessageId
			return nil
		}))
		dir := t.TempDir()
		s := p.serve(func(o *console.Options) {
			o.DropDir, o.Encode = dir, func(m amqp.Publishing, _ string) ([]byte, error) { return []byte(m.MessageId), nil }
		})
		b := newTab(t)
		if !script {
			b.withoutScript()
		}
		b.visit(s.at("queue", "queue", "bookings"))
		proctest.Eventually(t, patience, "the page of the queue to show both lanes", func() bool {
			b.visit(b.url())
			return strings.Contains(b.text("main"), "3 lanes blocked, with 4 blocked messages.")
		})
		b.visit(s.at("lanes", "queue", "bookings"))
		b.sees("3 blocked lanes")
		for _, change := range []struct {
			verb, by, result string
			left             int
		}{{"replay", "b1", "3 replayed", 4}, {"release", "c1", "1 replayed, 1 dropped", 2}, {"drop", "d1",
			"the lane is released, 2 dropped", 0}} {
			b.visit(s.at("lanes", "queue", "bookings"))
			b.follow(fmt.Sprintf("main tr:has(a[href*='id=%s']) a[href*='verb=%s']", change.by, change.verb))
			b.sees(change.by)
			b.fill("#why", "the account is open again")
			if status := b.follow("main form.sheet button"); status != http.StatusOK {
				t.Errorf("script %v, %s: status %d", script, change.verb, status)
			}
			proctest.Eventually(t, patience, "the page to say that the lane is released", func() bool {
				b.visit(b.url())
				return strings.Contains(b.text("main"), change.result)
			})
			if left := p.depth("bookings.dlq"); left != change.left {
				t.Errorf("script %v, %s: %d dead letters are left", script, change.verb, left)
			}
		}
		for _, want := range []string{"b1", "b2", "b3", "c2"} {
			if got := <-handled; got != want {
				t.Errorf("script %v: %s was handled, want %s", script, got, want)
			}
		}
		b.visit(s.at("lanes", "queue", "bookings"))
		b.sees("no lane is blocked")
		b.visit(s.at("audit", "queue", "bookings"))
		b.sees("the account is open again")
	}
}

// TestManyLanes measures the console's pages and the commands that show blocked lanes.
func TestManyLanes(t *testing.T) {
	servertest.Long(t)
	t.Parallel()
	p := newPlant(t)
	p.declare(topology.Spec{Queue: "bookings", SingleActiveConsumer: true})
	var msgs []publisher.Message
	for i := range 2 * *manyLanes {
		lane := i % *manyLanes
		msgs = append(msgs, booking(fmt.Sprint("b", i), fmt.Sprint("account-", lane), counter.CauseRejected))
	}
	p.publish("bookings", msgs...)
	c := lanes("bookings", handle)
	c.Concurrency, c.Prefetch = 64, 1000
	stop := p.consume(c)
	proctest.Eventually(t, 5*time.Minute, "the lanes to be blocked", func() bool {
		return p.depth("bookings.dlq") == len(msgs)
	})
	stop()
	s := p.serve(nil)
	b := newTab(t)
	slow := func(what string, took time.Duration) {
		fmt.Fprintf(os.Stdout, "%-28s %.0f ms with %d blocked lanes\n", what, float64(took)/1e6, *manyLanes)
		if *laneGoal > 0 && took > *laneGoal {
			t.Errorf("%s took %s; the goal is %s", what, took, *laneGoal)
		}
	}
	for _, page := range []string{"queue", "lanes"} {
		b.visit(s.at(page, "queue", "bookings"))
		b.sees("account-")
		painted := b.measure(s.at(page, "queue", "bookings")).Painted
		slow("page "+page, time.Duration(painted*float64(time.Millisecond)))
	}
	seen := map[string]bool{}
	for at := s.at("lanes", "queue", "bookings"); at != ""; {
		b.visit(at)
		for _, lane := range strings.Fields(b.text("main table")) {
			if strings.HasPrefix(lane, "account-") {
				seen[lane] = true
			}
		}
		at = run(b, chromedp.Evaluate[string](
			`[...document.querySelectorAll('main a')].find(a => a.textContent === 'Blocked for a shorter time')?.href ?? ''`))
	}
	if len(seen) != *manyLanes {
		t.Errorf("the pages list %d lanes, want %d", len(seen), *manyLanes)
	}
	slow("lane list", p.time("lane", "list", "bookings"))
	slow("status", p.time("status", "bookings"))
	slow("status of all queues", p.time("status"))
}
