package integration

import (
	"net/http"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/doctor"
	"github.com/strikesmq/strikes/internal/inspect"
)

// The dead-letter queue that AMQP can name is looked at without the API.
func TestDoctorSeesTheNamedQueueOverAMQP(t *testing.T) {
	t.Parallel()
	b := newTopo(t)
	q := b.name()
	b.queue(q+".dlq", lettersTo("x-max-length", 5))
	b.queue(q, quorum(q, argDLX, "", argDLK, q+".dlq"))
	if got, findings := b.examine(inspect.Need{Queue: q, MaxRetries: 3}); got != "error dead-letter-queue-limited, "+
		"warning not-seen" {
		t.Errorf("found %v", findings)
	}
}

func TestDoctorLists(t *testing.T) {
	t.Parallel()
	b := newTopo(t)
	q, bare, stream := b.name(), b.name(), b.name()
	on(quorum)(b, q)
	b.queue(bare, nil)
	broken, far := b.name(), b.name()
	b.queue(broken, classic(broken)) // its exchange does not exist
	b.queue(broken+".dlq", nil)
	b.way(far, "fanout", "")
	b.queue(far, classic(far, argDLX, b.named(far+".first")))
	b.exchange(far+".first", "fanout")
	b.must(func(ch *amqp.Channel) error { return ch.ExchangeBind(far+".dlx", "", far+".first", false, nil) })
	b.queue(stream, amqp.Table{"x-queue-type": "stream"})
	b.must(func(ch *amqp.Channel) error {
		mine, err := ch.QueueDeclare("", false, false, true, false, nil)
		if err != nil {
			return err
		}
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}
		listing, err := doctor.List(t.Context(), b.conn, inspect.Need{Management: managementURL(t), HTTPClient: client})
		if err != nil {
			return err
		}
		listed := " " + strings.Join(listing.Queues, " ") + " | " + strings.Join(listing.PassedOver, " ") + " "
		for name, want := range map[string]bool{q: true, bare: true, stream: false, q + ".dlq": false, mine.Name: false,
			broken: true, broken + ".dlq": false, far: true, far + ".dlq": false} {
			at := strings.Index(listed, " "+name+" ")
			if at < 0 || (at < strings.Index(listed, "|")) != want {
				t.Errorf("%s: want listed %v: %s", name, want, listed)
			}
		}
		return nil
	})
}
