package integration

import (
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/counter"
)

// TestDelayIDAgain uses an id again while its earlier message is in a delay queue. Both messages are handled, although
// they share one count.
func TestDelayIDAgain(t *testing.T) {
	t.Parallel() // most of it is waiting
	q := newShortDelayQueue(t, quick)
	due := false
	s := q.run(0, func(int) time.Duration {
		if due {
			return 0
		}
		return time.Hour
	})
	send := func(body string) {
		q.sendTo("", q.name, amqp.Publishing{MessageId: "again", DeliveryMode: amqp.Persistent, Body: []byte(body)})
	}
	send("first")
	s.wait(t, "the first one moved", func() bool { return s.outcomes[consumer.OutcomeMove] > 0 })
	send("second")
	s.wait(t, "both attempted", func() bool { return len(s.deliveries) == 2 })
	s.mu.Lock()
	due = true
	s.mu.Unlock()
	reset := func() {
		records, err := q.store.Get(t.Context(), q.conn.Config.Vhost, q.name, "again")
		if err != nil || len(records) != 1 {
			t.Fatalf("records %+v, %v", records, err)
		}
		need(t, q.store.Reset(t.Context(), records[0].Message, counter.Note{By: "test", Why: "it is due now"}))
	}
	s.wait(t, "the second one counted", func() bool { return s.outcomes[consumer.OutcomeRetry] == 2 })
	reset()
	s.wait(t, "both handled", func() bool {
		handled := map[string]bool{}
		for _, d := range s.deliveries[2:] {
			handled[string(d.Body)] = true
		}
		return handled["first"] && handled["second"]
	})
	q.wantEmpty()
}
