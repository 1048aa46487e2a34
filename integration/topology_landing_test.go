package integration

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/doctor"
	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/internal/inspect"
	"github.com/strikesmq/strikes/topology"
)

// Where dead letters land is found on the route that they take, not by a name.
func TestTopologyFindsDeadLetters(t *testing.T) {
	t.Parallel()
	const dlq = ".dlq"
	tests := []struct {
		name         string
		set          func(b topo, q string)
		amqp, manage []string // without and with the management API: queues after q, then the words about them
	}{
		{"as declared", func(b topo, q string) { b.declare(topology.Spec{Queue: q}) },
			[]string{"the bindings of"}, []string{dlq}},
		{"another name", func(b topo, q string) {
			b.exchange(q+".dlx", "fanout")
			b.queue(b.named(q+".dead"), nil)
			b.bind(q+".dead", "", q+".dlx")
			b.queue(q, classic(q))
		}, []string{"the bindings of"}, []string{".dead"}},
		{"by policy", func(b topo, q string) {
			b.way(q, "fanout", "")
			b.policy(q, map[string]any{"dead-letter-exchange": q + ".dlx"})
			b.queue(q, nil)
		}, []string{"whether a policy"}, []string{dlq}},
		{"default exchange", func(b topo, q string) {
			b.queue(b.named(q+".dead"), nil)
			b.queue(q, classic(q, argDLX, "", argDLK, q+".dead"))
		}, []string{".dead"}, []string{".dead"}},
		{"over a queue with a TTL", func(b topo, q string) {
			b.queue(b.named(q+".dead"), nil)
			b.queue(b.named(q+".wait"), amqp.Table{"x-message-ttl": 60000, argDLX: "", argDLK: q + ".dead"})
			b.queue(q, classic(q, argDLX, "", argDLK, q+".wait"))
		}, []string{".dead behind", ".wait delay"}, []string{".dead behind", ".wait delay"}},
		{"two queues, one for some keys", func(b topo, q string) {
			b.way(q, "topic", "#")
			b.queue(b.named(q+".dead"), nil)
			b.bind(q+".dead", "eu.*", q+".dlx")
			b.exchange(b.named(q+".in"), "topic")
			b.queue(q, classic(q))
			b.bind(q, "*.orders", q+".in")
		}, []string{"the bindings of"}, []string{".dead depends", dlq}},
		{"an alternate exchange", func(b topo, q string) {
			b.queue(q+".dlq", nil)
			b.exchange(q+".dlx", "fanout")
			b.bind(q+".dlq", "", q+".dlx")
			b.must(func(ch *amqp.Channel) error {
				return ch.ExchangeDeclare(b.named(q+".first"), "direct", true, false, false, false,
					amqp.Table{"alternate-exchange": q + ".dlx"})
			})
			b.queue(q, classic(q, argDLX, q+".first"))
		}, []string{"the bindings of"}, []string{dlq}},
		{"an exchange that does not exist", func(b topo, q string) {
			b.queue(q+".dlq", nil)
			b.queue(q, classic(q))
		}, []string{"the dead-letter exchange"}, []string{"the dead-letter exchange"}},
		{"no queue", func(b topo, q string) { b.queue(q+".dlq", nil) },
			[]string{"there is no queue"}, []string{"there is no queue"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel() // most of it is waiting for the API
			b := newTopo(t)
			q := b.name()
			tt.set(b, q)
			for api, want := range map[string][]string{"": tt.amqp, managementURL(t): tt.manage} {
				found, why, err := doctor.FindDeadLetters(t.Context(), b.conn, inspect.Need{Queue: q, Management: api})
				need(t, err)
				if diff := cmp.Diff(want, landed(found, why, q, want)); diff != "" {
					t.Errorf("management API %q: (-want +got)\n%s", api, diff)
				}
			}
		})
	}
}

// landed returns the findings in the words of the table: as much of each sentence as is wanted.
func landed(queues []inspect.Landing, why, q string, want []string) []string {
	var out []string
	for _, x := range queues {
		says := strings.TrimPrefix(x.Name, q)
		for word, is := range map[string]bool{" depends": x.Depends, " behind": x.Behind, " delay": x.Delay} {
			if is {
				says += word
			}
		}
		out = append(out, says)
	}
	if why != "" {
		out = append(out, why)
	}
	for i := range out {
		if i < len(want) && strings.HasPrefix(out[i], want[i]) && i >= len(queues) {
			out[i] = want[i]
		}
	}
	return out
}

// TestDeadLettersThatWait: a quorum queue whose dead-letter exchange is gone keeps rejected messages. AMQP does not
// count them, and the management API does.
func TestDeadLettersThatWait(t *testing.T) {
	t.Parallel()
	const n = 5
	queue := declared(t, topology.Quorum)
	publish(t, queue, "m", n)
	ready := -1
	err := onChannel(dialer(t), func(ch *amqp.Channel) error {
		if err := ch.ExchangeDelete(queue+".dlx", false, false); err != nil {
			return err
		}
		for range n {
			d, ok, err := ch.Get(queue, false)
			if err := errors.Join(err, d.Nack(false, false)); err != nil || !ok {
				return fmt.Errorf("got %v, %w", ok, err)
			}
		}
		q, err := ch.QueueDeclarePassive(queue, false, false, false, false, nil)
		ready = q.Messages
		return err
	})
	if err != nil || ready != 0 {
		t.Fatalf("%d ready, %v", ready, err)
	}
	conn, need := dialBroker(t), inspect.Need{Queue: queue, Management: managementURL(t)}
	var load broker.Load
	eventually(t, "the dead letters that wait", func() bool {
		load, err = doctor.Measure(t.Context(), conn, need)
		return err == nil && load.DeadLettering == n
	})
	if load.Ready != 0 || load.Unacked != 0 {
		t.Errorf("%+v", load)
	}
}
