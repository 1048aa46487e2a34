package console

import (
	"net/http"
	"net/url"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/publisher"
	"github.com/strikesmq/strikes/topology"
)

// TestWriteOff writes off the dead letters that a purge removed: from the notice on the queue's page, over the preview, to the audit.
func TestWriteOff(t *testing.T) {
	p := newPlant(t)
	p.declare(topology.Spec{Queue: "bills"})
	var orders []publisher.Message
	for _, id := range []string{"b-1", "b-2", "b-3"} {
		orders = append(orders, order(id, counter.CauseRejected, "no such customer", "{}"))
	}
	p.kill("bills", orders...)
	p.topology(func(ch *amqp.Channel) error { _, err := ch.QueuePurge("bills.dlq", false); return err })
	s := p.serve(nil)
	b := newTab(t)
	b.visit(s.at("queue", "queue", "bills"))
	b.sees("3 dead letters unaccounted for") // once they cannot be on their way

	const link = "main a[href*='verb=write-off']"
	b.follow(link)
	b.sees("3 dead letters unaccounted for: expired")
	if len(b.violations()) > 0 {
		t.Error(b.violations())
	}
	b.fill("#why", "purged by mistake")
	if status := b.follow("main form button"); status != http.StatusOK {
		t.Errorf("status %d\n%s", status, b.text("main"))
	}
	b.sees("3 dead letters written off.")
	b.gone("unaccounted for")
	got, err := p.counter.Admin().Tombstones(t.Context(), p.vhost, "bills")
	if err != nil || got.Count != 3 || got.WrittenOff != 3 {
		t.Errorf("%+v, %v", got, err)
	}
	b.visit(s.at("audit", "queue", "bills"))
	for _, part := range []string{"write-off", "purged by mistake", "done"} {
		b.sees(part)
	}

	// Another operator's page, which was loaded before, writes off nothing more.
	res := s.ask(http.MethodPost, s.at("change", "verb", "write-off", "queue", "bills"), url.Values{"why": {"again"}, "count": {"3"}}, nil)
	if got, err := p.counter.Admin().Tombstones(t.Context(), p.vhost, "bills"); res.StatusCode != http.StatusConflict || err != nil || got.WrittenOff != 3 {
		t.Errorf("status %d, %+v, %v", res.StatusCode, got, err)
	}
	b.visit(s.at("change", "verb", "write-off", "queue", "bills"))
	b.sees("No dead letter is unaccounted for now.")
}
