package integration

import (
	"slices"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/doctor"
	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/internal/inspect"
	"github.com/strikesmq/strikes/internal/proctest"
)

// probe returns the codes of the findings and how many things were proven.
func (b topo) probe(needed inspect.Need) (proven int, codes string, findings []inspect.Finding) {
	b.t.Helper()
	proof, err := doctor.Probe(b.t.Context(), b.conn, needed)
	need(b.t, err)
	var all []string
	for _, f := range proof.Findings {
		all = append(all, f.Code)
	}
	return len(proof.Proven), strings.Join(all, ", "), proof.Findings
}

// TestRequeuePosition compares the rule of Queue.Requeue with the broker.
func TestRequeuePosition(t *testing.T) {
	t.Parallel()
	b := newTopo(t)
	for _, args := range []amqp.Table{
		{"x-queue-type": "classic"},
		{"x-queue-type": "classic", "x-single-active-consumer": true},
		{"x-queue-type": "quorum", argLimit: 50},
		{"x-queue-type": "quorum", argLimit: 50, "x-single-active-consumer": true},
		{"x-queue-type": "quorum"},
		{"x-queue-type": "quorum", argLimit: -1},
	} {
		q := b.name()
		b.queue(q, args)
		b.publish("", q, "1", "2", "3")
		var order string
		b.must(func(ch *amqp.Channel) error {
			need(t, ch.Qos(1, 0, false))
			deliveries, err := ch.Consume(q, "", false, false, false, false, nil)
			need(t, err)
			need(t, (<-deliveries).Nack(false, true))
			for range 3 {
				select {
				case d := <-deliveries:
					order += string(d.Body)
					need(t, d.Ack(false))
				case <-time.After(10 * time.Second): // a discarded message does not come again
				}
			}
			return nil
		})
		d, err := broker.Look(t.Context(), b.conn, q, nil)
		need(t, err)
		want := map[string][]broker.Position{
			"123": {broker.PositionOriginal, broker.PositionHead},
			"231": {broker.PositionTail},
			"23":  {broker.PositionDiscarded},
		}[order]
		if !slices.Contains(want, d.Requeue()) {
			t.Errorf("%v: the rule says %v, and the broker delivers %s", args, d.Requeue(), order)
		}
	}
}

func TestDoctorProbesTheLanding(t *testing.T) {
	t.Parallel()
	none := inspect.Need{}
	tests := []struct {
		patient        // want is the codes of the probe
		reason  string // why it was refused
		instead string
	}{
		{patient: patient{"quorum as declared", on(quorum), none, ""}},
		{patient: patient{"classic as declared", on(classic), none, ""}},
		{patient: patient{"direct with its key", func(b topo, q string) {
			b.way(q, "direct", "this")
			b.queue(q, quorum(q, argDLK, "this"))
		}, none, ""}},
		{patient: patient{"default exchange", func(b topo, q string) {
			b.queue(q+".dlq", lettersTo())
			b.queue(q, classic(q, argDLX, "", argDLK, q+".dlq"))
		}, none, ""}},
		{patient: patient{"two dead-letter queues", landing()[6].set, none, ""}},
		{patient: patient{"a dead-letter queue that keeps nothing", func(b topo, q string) {
			b.ends(q, amqp.Table{"x-queue-type": "classic", "x-max-length": 0})
		}, none, "probe-lost"}},
		{patient{"a consumer would get it", func(b topo, q string) {
			on(quorum)(b, q)
			attended(func(topo, string) {}, 10, false, nil)(b, q+".dlq")
		}, none, "probe-refused"}, "1 consumer of the dead-letter queue", "stop its consumers"},
		{patient{"it would be one among others", func(b topo, q string) {
			on(quorum)(b, q)
			b.publish("", q+".dlq", "a dead letter")
		}, none, "probe-refused"}, "holds 1 dead letter,",
			"replay or drop its dead letters (strikes dead) and probe again; or compare the dead letters"},
		{patient{"back to itself", func(b topo, q string) {
			on(quorum)(b, q)
			b.bind(q, "", q+".dlx")
		}, none, "probe-refused"}, "come back", ""},
		{patient{"a key that the message decides", func(b topo, q string) {
			b.way(q, "topic", "a.*")
			b.queue(q, quorum(q))
		}, none, "probe-refused"}, "by their keys or headers", ""},
		{patient{"a key that the message decides, behind a fanout", func(b topo, q string) {
			b.way(q, "fanout", "")
			b.exchange(b.named(q+".x"), "topic")
			b.must(func(ch *amqp.Channel) error { return ch.ExchangeBind(q+".x", "", q+".dlx", false, nil) })
			b.queue(b.named(q+".eu"), lettersTo())
			b.bind(q+".eu", "eu.*", q+".x")
			b.exchange(b.named(q+".in"), "topic")
			b.queue(q, quorum(q))
			b.bind(q, "eu.a", q+".in")
		}, none, "probe-refused"}, "by their keys or headers", ""},
		{patient{"a dead-letter queue that expires messages", func(b topo, q string) {
			b.ends(q, lettersTo("x-message-ttl", 100000))
		}, none, "probe-refused"}, "taken out", ""},
		{patient{"nothing bound", func(b topo, q string) {
			b.exchange(q+".dlx", "fanout")
			b.queue(q, quorum(q))
		}, none, "probe-refused"}, "reach no queue", ""},
	}
	b := newTopo(t)
	for _, tt := range tests {
		q := b.name()
		tt.set(b, q)
		before := b.depths(q)
		proven, codes, findings := b.probe(inspect.Need{Queue: q, Management: managementURL(t)})
		if codes != tt.want || codes == "" && proven < 1 {
			t.Errorf("%s: proven %d, found %v, want %q", tt.name, proven, findings, tt.want)
		}
		if tt.reason != "" && (len(findings) != 1 || !strings.Contains(findings[0].Seen, tt.reason)) {
			t.Errorf("%s: got %v, want the reason %q", tt.name, findings, tt.reason)
		}
		if tt.instead != "" && !strings.Contains(findings[0].Fix, tt.instead) {
			t.Errorf("%s: got %v, want the advice %q", tt.name, findings, tt.instead)
		}
		if after := b.depths(q); after != before {
			t.Errorf("%s: depths %v before, %v after", tt.name, before, after)
		}
	}
	b.nothingLeft()
}

// depths are the messages of a queue and of its dead-letter queue; of one that
// does not exist, none.
func (b topo) depths(q string) (n [2]int) {
	for i, name := range []string{q, q + ".dlq"} {
		_ = b.try(func(ch *amqp.Channel) error {
			state, err := ch.QueueDeclarePassive(name, false, false, false, false, nil)
			n[i] = state.Messages
			return err
		})
	}
	return n
}

// nothingLeft looks for scratch queues; another test's are there for a moment.
func (b topo) nothingLeft() {
	b.t.Helper()
	proctest.Eventually(b.t, time.Minute, "no scratch queue is left", func() bool {
		listing, err := doctor.List(b.t.Context(), b.conn, inspect.Need{Management: managementURL(b.t)})
		need(b.t, err)
		return !slices.ContainsFunc(append(listing.Queues, listing.PassedOver...), func(name string) bool {
			return strings.HasPrefix(name, "strikes.probe.")
		})
	})
}

// Without the API it is not known where dead letters go, but the queue that a routing key names is known.
func TestDoctorProbesOverAMQP(t *testing.T) {
	t.Parallel()
	b := newTopo(t)
	q := b.name()
	on(quorum)(b, q)
	if proven, codes, findings := b.probe(inspect.Need{Queue: q}); proven != 0 || codes != "probe-refused" ||
		!strings.Contains(findings[0].Seen, "give the URL of the management API (Check.Management)") {
		t.Errorf("proven %d, found %v", proven, findings)
	}
	named := b.name()
	b.queue(named+".dlq", lettersTo())
	b.queue(named, quorum(named, argDLX, "", argDLK, named+".dlq"))
	if proven, codes, findings := b.probe(inspect.Need{Queue: named}); proven != 1 || codes != "" {
		t.Errorf("proven %d, found %v", proven, findings)
	}
}

// TestDoctorProbesWhereAPolicyExpiresMessages: a scratch message that expires at once takes the same route, and is
// taken out again.
func TestDoctorProbesWhereAPolicyExpiresMessages(t *testing.T) {
	b := newTopo(t)
	b.policy("strikes.probe.*", map[string]any{"message-ttl": 0})
	q := b.name()
	on(classic)(b, q)
	before := b.depths(q)
	proven, codes, findings := b.probe(inspect.Need{Queue: q, Management: managementURL(t)})
	if proven != 1 || codes != "" {
		t.Errorf("proven %d, found %v", proven, findings)
	}
	if after := b.depths(q); after != before {
		t.Errorf("depths %v before, %v after", before, after)
	}
	b.nothingLeft()
}

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

// Who may only read can have nothing probed, and is told so.
func TestDoctorProbeNeedsPermission(t *testing.T) {
	t.Parallel()
	admin := newTopo(t)
	q := admin.name()
	on(quorum)(admin, q)
	reader := admin.reader()
	proven, codes, findings := reader.probe(inspect.Need{Queue: q, Management: managementURL(t)})
	if proven != 0 || codes != "probe-refused" || !strings.Contains(findings[0].Seen, "ACCESS_REFUSED") {
		t.Errorf("proven %d, found %v", proven, findings)
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
		listing, err := doctor.List(t.Context(), b.conn, inspect.Need{Management: managementURL(t)})
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
