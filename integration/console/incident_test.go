package console

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/console"
	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/counter/rules"
	"github.com/strikesmq/strikes/internal/proctest"
	"github.com/strikesmq/strikes/publisher"
	"github.com/strikesmq/strikes/topology"
)

// incident makes a bad night: a message blocks an ordered queue, another queue has dead letters of four causes, a
// process died of a message, and the dead-letter exchange of a fourth queue is deleted. Its consumers run until the
// test ends.
func incident(t testing.TB) *plant {
	t.Helper()
	p := newPlant(t)
	p.declare(
		topology.Spec{Queue: "orders", SingleActiveConsumer: true}, topology.Spec{Queue: "payments", Type: topology.Classic},
		topology.Spec{Queue: "exports"}, topology.Spec{Queue: "emails", Type: topology.Classic},
		topology.Spec{Queue: "stock"},
	)
	p.kill("payments", payments(24)...)
	p.block("orders", 40)
	p.crash("exports", "export-2026-11")
	p.loseRoute("emails")
	p.earlier("orders")
	return p
}

// TestIncident resolves a bad night as an engineer new to the rota would: from the first page on, with clicks and forms
// alone. Outside the console only consumers are deployed again.
func TestIncident(t *testing.T) {
	t.Parallel()
	p := incident(t)
	s := p.serve(func(o *console.Options) {
		o.DropDir = t.TempDir()
		o.Encode = func(m amqp.Publishing, _ string) ([]byte, error) { return json.Marshal(m.MessageId) }
	})
	b := newTab(t)

	// The first page lists the faults, the worst first.
	b.visit(s.url)
	b.sees("1 of 5 queues with an error, 3 blocked")
	if first := b.text("tbody tr:first-child"); !strings.Contains(first, "emails") || !strings.Contains(first,
		`the dead-letter exchange "emails.dlx" does not exist`) {
		t.Errorf("the worst is: %s", first)
	}

	// The exchange is gone: the page of its queue says so, and the doctor names the command that declares it again.
	b.open("emails", "dead-letter route broken")
	b.followText("Examine it")
	b.sees("strikes doctor --fix emails")
	p.declare(topology.Spec{Queue: "emails", Type: topology.Classic})
	b.visit(s.at("doctor"))
	b.follow("main form button")
	b.gone("emails.dlx")
	b.open("emails", "emails")
	p.consume(consumer.Consumer{Queue: "emails", MaxRetries: 1})
	b.gone("dead-letter route broken")

	// A message blocks an ordered queue: its reason is on the page, and a skip lets those behind it through.
	b.open("orders", "PUT https://warehouse.example/reservations/7301: 409 Conflict")
	b.choose("Skip order-7301", "pallet 12 stays locked until the inventory ends")
	b.gone("blocked for")
	b.sees("1 dead letter")

	// A message kills its process, so no process runs the consumer: skip it, then deploy.
	b.open("exports", "no consumer")
	b.sees("left running: its process died, or was cut off")
	b.choose("Skip export-2026-11", "it kills the exporter")
	p.consume(consumer.Consumer{Queue: "exports", Handler: well})
	b.gone("no consumer")
	b.gone("left running")
	b.sees("1 dead letter")

	// Many died of a bank that was away: replay these, and no others. Payments that no bank can handle are dropped to a
	// file.
	p.consume(consumer.Consumer{Queue: "payments", Handler: well})
	b.open("payments", "24 dead letters")
	b.followText("POST <address>: 503 Service Unavailable (request <id>)")
	b.sees("12 dead letters")
	b.followText("Replay dead letters")
	b.sees("12 dead letters would be replayed")
	b.fill("#why", "the bank is up again")
	b.follow("main form.sheet button")
	b.sees("12 of 12")
	b.sees("replay ended") // until then the queue has no other
	b.open("payments", "12 dead letters")
	b.followText("payment <n>: unknown currency <text>")
	b.followText("Drop dead letters")
	b.fill("#why", "XTS is for tests")
	b.follow("main form.sheet button")
	b.sees("drop ended")

	// The remaining findings are not urgent, and the audit tells the day shift.
	b.visit(s.url)
	b.sees("unaccounted for") // the mail that the broker lost with the exchange
	for _, part := range []string{"broken", "blocked"} {
		b.gone(part)
	}
	for queue, reason := range map[string]string{"payments": "XTS is for tests", "exports": "it kills the exporter"} {
		b.open(queue, queue)
		b.followText("Audit")
		b.sees(reason)
	}
}

// open goes from any page to the page of a queue, and waits until it says something.
func (b *tab) open(queue, says string) {
	b.t.Helper()
	b.follow("nav a[href='./']")
	b.sees("As of")
	b.followText(queue)
	b.sees(says)
}

// choose follows a link that leads to a form with a reason, and sends the form.
func (b *tab) choose(link, reason string) {
	b.t.Helper()
	b.followText(link)
	b.fill("#why", reason)
	if status := b.follow("main form.sheet button"); status != http.StatusOK {
		b.t.Errorf("%s: status %d\n%s", link, status, b.text("main"))
	}
}

// gone waits until the page no longer says something.
func (b *tab) gone(part string) {
	b.t.Helper()
	end := time.Now().Add(patience)
	for strings.Contains(b.text("main"), part) {
		if time.Now().After(end) {
			b.t.Fatalf("still %q at %s:\n%s", part, b.url(), b.text("body"))
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// earlier writes the changes that operators made before the incident.
func (p *plant) earlier(queue string) {
	p.t.Helper()
	for _, e := range []counter.AuditEntry{
		{Actor: "grace", Verb: "limit", Subject: queue, Reason: "the warehouse is slow tonight", Result: queue +
			" is now limited to 8 retries after the first attempt.", Count: 1},
		{Actor: "grace", Verb: "pause", Subject: queue, Reason: "release 2026.11.3", Result: "The consumers of " + queue +
			" are paused.", Count: 1},
		{Actor: "ada", Verb: "resume", Subject: queue, Reason: "released", Result: "The consumers of " + queue + " go on.",
			Count: 1},
	} {
		need(p.t, p.counter.Admin().Audit(p.t.Context(), p.vhost, queue, e))
	}
}

// payments are n messages that die of four causes.
func payments(n int) (all []publisher.Message) {
	for i := range n {
		id, body := fmt.Sprintf("pay-%04d", 4100+i), fmt.Sprintf(`{"payment": %d, "amount": "%d.50", "currency": "EUR"}`,
			4100+i, i)
		switch {
		case i%2 == 0:
			all = append(all, order(id, counter.CauseFailed, fmt.Sprintf("POST https://bank.example/v1/charges: 503 Service "+
				"Unavailable (request %08x)", 0xabc00000+7919*i), body))
		case i%3 == 0:
			all = append(all, order(id, counter.CausePanicked,
				fmt.Sprintf("runtime error: index out of range [%d] with length 0", i), body))
		case i%5 == 0:
			all = append(all, order(id, counter.CauseTimedOut, "waiting for the ledger", body))
		default:
			all = append(all, order(id, counter.CauseRejected, fmt.Sprintf(`payment %d: unknown currency "XTS"`, 4100+i), body))
		}
	}
	return all
}

// block has a message at the head of an ordered queue fail, with others behind it.
func (p *plant) block(queue string, behind int) {
	p.t.Helper()
	msgs := []publisher.Message{order("order-7301", counter.CauseFailed,
		"PUT https://warehouse.example/reservations/7301: 409 Conflict: pallet 12 is locked by inventory run 88",
		`{"order": 7301}`)}
	for i := range behind {
		msgs = append(msgs, order(fmt.Sprintf("order-%d", 7302+i), "", "", fmt.Sprintf(`{"order": %d}`, 7302+i)))
	}
	p.publish(queue, msgs...)
	p.consume(consumer.Consumer{
		Queue: queue, Ordered: true, MaxRetries: 8, Name: "orders-7d9f, pid 12",
		Backoff: func(failed int) time.Duration {
			if failed < 3 {
				return 10 * time.Millisecond
			}
			return 10 * time.Minute
		},
	})
	proctest.Eventually(p.t, patience, "three failed attempts at the head of "+queue, func() bool {
		return p.record(queue, "order-7301").Counted() >= 3
	})
}

// record is the newest one of a message.
func (p *plant) record(queue, id string) counter.Record {
	p.t.Helper()
	all, err := p.counter.Admin().Get(p.t.Context(), p.vhost, queue, id)
	need(p.t, err)
	if len(all) == 0 {
		return counter.Record{}
	}
	return all[0]
}

// crash takes the steps of processes that died while they handled a message, which stays in the queue.
func (p *plant) crash(queue, id string) {
	p.t.Helper()
	p.publish(queue, order(id, "", "", "{}"))
	for i := range 2 {
		a := counter.Attempt{Message: counter.Message{VHost: p.vhost, Queue: queue, ID: id}, Token: fmt.Sprint("crash-", i),
			Consumer: fmt.Sprintf("exports-%d, pid 1", i)}
		need(p.t, errOf(p.counter.Start(p.t.Context(), a, rules.ModeIsolated, 4)))
	}
	// a process that dies returns its message, which is marked as redelivered
	need(p.t, p.onChannel(func(ch *amqp.Channel) error {
		d, ok, err := ch.Get(queue, false)
		if err != nil || !ok {
			return fmt.Errorf("a message of %s: %v, %w", queue, ok, err)
		}
		return d.Nack(false, true)
	}))
}

// loseRoute deletes the dead-letter exchange of a queue after it has dead-lettered a few messages.
func (p *plant) loseRoute(queue string) {
	p.t.Helper()
	p.kill(queue, order("mail-1", counter.CauseRejected, "550 5.1.1 no such user <ada@nowhere.example>", "{}"))
	need(p.t, p.onChannel(func(ch *amqp.Channel) error {
		return ch.ExchangeDelete(queue+".dlx", false, false)
	}))
	p.publish(queue, order("mail-2", counter.CauseRejected, "550 5.1.1 no such user <bob@nowhere.example>", "{}"),
		order("mail-3", "", "", "{}"))
	p.nackAll(queue, 1)
}

func (p *plant) onChannel(f func(*amqp.Channel) error) error {
	ch, err := p.conn.Channel()
	if err != nil {
		return err
	}
	defer func() { _ = ch.Close() }()
	return f(ch)
}

// nackAll counts n messages as rejected and dead-letters them, as a consumer of another language that does not check
// its route.
func (p *plant) nackAll(queue string, n int) {
	p.t.Helper()
	need(p.t, p.onChannel(func(ch *amqp.Channel) error {
		for range n {
			d, ok, err := ch.Get(queue, false)
			if err != nil || !ok {
				return fmt.Errorf("a message of %s: %v, %w", queue, ok, err)
			}
			why, _ := d.Headers["why"].(string)
			a := counter.Attempt{Message: counter.Message{VHost: p.vhost, Queue: queue, ID: d.MessageId}, Token: "n-" +
				d.MessageId, Consumer: "mailer.py, pid 9"}
			if _, err := p.counter.Fail(p.t.Context(), a, counter.Failure{Limit: 1, Cause: counter.CauseRejected,
				Reason: why}); err != nil {
				return err
			}
			if err := d.Nack(false, false); err != nil {
				return err
			}
		}
		return nil
	}))
}

// TestOtherStores has an operator skip a message and replay dead letters, and examine the queues with the command, on
// each store that is a database. To run all tests on one: go test ./integration/console -store postgres
func TestOtherStores(t *testing.T) {
	for _, kind := range []string{"postgres", "mysql"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			p := newPlantOn(t, kind)
			p.declare(topology.Spec{Queue: "orders", SingleActiveConsumer: true},
				topology.Spec{Queue: "payments", Type: topology.Classic})
			p.kill("payments", payments(12)...)
			p.block("orders", 5)
			s, b := p.serve(nil), newTab(t)

			b.visit(s.url)
			b.sees("1 of 2 queues blocked, 12 dead letters")
			b.open("orders", "PUT https://warehouse.example/reservations/7301: 409 Conflict")
			b.choose("Skip order-7301", "pallet 12 stays locked")
			b.gone("blocked for")
			b.sees("1 dead letter")
			p.consume(consumer.Consumer{Queue: "payments", Handler: well})
			b.open("payments", "12 dead letters")
			b.followText("POST <address>: 503 Service Unavailable (request <id>)")
			b.followText("Replay dead letters")
			b.fill("#why", "the bank is up again")
			b.follow("main form.sheet button")
			b.sees("6 of 6")
			b.visit(s.at("audit", "queue", "orders"))
			b.sees("pallet 12 stays locked")

			doctor := func(want string) {
				t.Helper()
				out, err := p.command("doctor", "orders", "payments").CombinedOutput()
				var exit *exec.ExitError
				if !strings.Contains(string(out), want) || err != nil && !errors.As(err, &exit) {
					t.Errorf("%v, want %q in:\n%s", err, want, out)
				}
			}
			p.storeURL = through(p.storeURL, p.store)
			if kind == "postgres" { // the MariaDB of tests does not sync anyway
				p.storeURL += "&synchronous_commit=off"
			}
			doctor("crash of the server loses the counts of its last moments")
			p.store.Close()
			doctor("unreachable")
		})
	}
}
