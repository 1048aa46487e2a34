package console

import (
	"fmt"
	"html"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/topology"
)

var planOf = regexp.MustCompile(`name="plan" value="([0-9a-f]+)"`)

// page returns the status and the text of a page, and the plan in its form; empty: there is none.
func (s *site) page(method, at string, form url.Values) (status int, text, plan string) {
	s.t.Helper()
	res := s.ask(method, at, form, nil)
	body, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	if res.StatusCode == http.StatusSeeOther {
		base, _ := url.Parse(at)
		next, err := base.Parse(res.Header.Get("Location"))
		if err != nil {
			s.t.Fatal(err)
		}
		return s.page(http.MethodGet, next.String(), nil)
	}
	if found := planOf.FindSubmatch(body); found != nil {
		plan = string(found[1])
	}
	return res.StatusCode, html.UnescapeString(string(body)), plan
}

// confirm takes the steps of a plan.
func (s *site) confirm(at, plan string) (int, string, string) {
	s.t.Helper()
	return s.page(http.MethodPost, at, url.Values{"why": {"a migration"}, "plan": {plan}})
}

// TestRepair repairs dead-letter routes of which each lacks something else, and leaves alone what a person has to decide.
func TestRepair(t *testing.T) {
	p := newPlant(t)
	lost := func(queue, exchange, key string) {
		p.topology(func(ch *amqp.Channel) error {
			args := amqp.Table{"x-dead-letter-exchange": exchange}
			if key != "" {
				args["x-dead-letter-routing-key"] = key
			}
			_, err := ch.QueueDeclare(queue, true, false, false, false, args)
			return err
		})
	}
	lost("mails", "dead", "mails")
	for _, queue := range []string{"bills", "tickets", "news"} { // all at first: the policies of a new queue are known after seconds
		p.declare(topology.Spec{Queue: queue})
	}
	s := p.serve(nil)
	at := func(queue string, more ...string) string {
		return s.at("change", append([]string{"verb", "repair", "queue", queue}, more...)...)
	}
	sees := func(text string, parts ...string) {
		t.Helper()
		for _, part := range parts {
			if !strings.Contains(text, part) {
				t.Errorf("the page lacks %q:\n%.3000s", part, mainOf(text))
			}
		}
	}

	t.Run("a shared exchange, whose type only a person knows", func(t *testing.T) {
		_, text, plan := s.page(http.MethodGet, at("mails"), nil)
		if sees(text, "Neither the queue nor a policy shows the type", "kind=direct"); plan != "" {
			t.Error("the page offers a repair without a type")
		}
		_, text, plan = s.page(http.MethodGet, at("mails", "kind", "direct"), nil)
		sees(text, `declare the direct exchange "dead"`, `bind the queue "mails.dlq" to the exchange "dead" with the key "mails"`)
		_, text, _ = s.confirm(at("mails", "kind", "direct"), plan)
		sees(text, "mails is fixed; an examination confirmed this")
		p.topology(func(ch *amqp.Channel) error {
			return ch.ExchangeDeclare("dead", "direct", true, false, false, false, nil)
		})
	})

	t.Run("another world than the preview's", func(t *testing.T) {
		p.topology(func(ch *amqp.Channel) error { return ch.ExchangeDelete("bills.dlx", false, false) })
		_, text, plan := s.page(http.MethodGet, at("bills"), nil)
		sees(text, `declare the fanout exchange "bills.dlx"`, `The queue "bills.dlq" exists, of type quorum`)
		p.topology(func(ch *amqp.Channel) error { _, err := ch.QueueDelete("bills.dlq", false, false, false); return err })
		status, text, again := s.confirm(at("bills"), plan)
		if sees(text, "nothing was done", `declare the quorum queue "bills.dlq"`); status != http.StatusConflict {
			t.Errorf("status %d, want 409", status)
		}
		p.topology(func(ch *amqp.Channel) error {
			if err := ch.ExchangeDeclarePassive("bills.dlx", "", false, false, false, false, nil); err == nil {
				return fmt.Errorf("the exchange was declared")
			}
			return nil
		})
		_, text, _ = s.confirm(at("bills"), again)
		sees(text, "an examination confirmed this")
	})

	t.Run("a queue that would lose dead letters", func(t *testing.T) {
		p.topology(func(ch *amqp.Channel) error {
			if err := ch.ExchangeDelete("tickets.dlx", false, false); err != nil {
				return err
			}
			if _, err := ch.QueueDelete("tickets.dlq", false, false, false); err != nil {
				return err
			}
			_, err := ch.QueueDeclare("tickets.dlq", true, false, false, false, amqp.Table{"x-message-ttl": int32(60_000), "x-max-length": int32(5)})
			return err
		})
		_, text, plan := s.page(http.MethodGet, at("tickets"), nil)
		if sees(text, "keeps messages for 60000 ms", "holds 5 messages at most", "Therefore the console does not bind it"); plan != "" {
			t.Error("the page offers a repair")
		}
	})

	t.Run("a whole route", func(t *testing.T) {
		_, text, _ := s.page(http.MethodGet, at("news"), nil)
		sees(text, "There is nothing that the console can fix")
		_, text, _ = s.confirm(at("news"), "0")
		sees(text, "so nothing was done")
	})
}

// topology changes what the broker has.
func (p *plant) topology(change func(*amqp.Channel) error) {
	p.t.Helper()
	if err := p.onChannel(change); err != nil {
		p.t.Fatal(err)
	}
}

// mainOf is what a page shows, without its head.
func mainOf(page string) string {
	_, main, _ := strings.Cut(page, "<main")
	return main
}
