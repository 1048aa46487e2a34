package console

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/proctest"
	"github.com/strikesmq/strikes/internal/servertest"
	"github.com/strikesmq/strikes/publisher"
	"github.com/strikesmq/strikes/topology"
)

// hostile are texts that must only ever be text on a page. Each is an id, a reason, a header and a body.
var hostile = map[string]string{
	"script":        `<script>alert('x')</script>`,
	"handler":       `"><img src=x onerror=alert('x')>`,
	"end of script": `</script></style></title><svg onload=alert('x')>`,
	"template":      `{{.Visitor}} ${alert('x')} <% x %>`,
	"link":          `javascript:alert('x')`,
	"turned text":   "abc\u202egnp.exe\u202c \u2066x\u2069 \u200f",
	"control":       "a\x00b\x1b[31mred\x07\r\nSet-Cookie: x=1",
	"invalid UTF-8": "a\xff\xfe\xc3(b\xed\xa0\x80",
	"query":         `a&verb=drop#x?y=%00%zz+`,
	"path":          `../../etc/passwd`,
	"wide":          strings.Repeat("W", 250),
}

// TestHostileTexts shows hostile ids, reasons, headers and bodies on every screen. newTab fails the test if a script
// runs, or if the policy had to stop one.
func TestHostileTexts(t *testing.T) {
	servertest.Long(t)
	t.Parallel()
	p := newPlant(t)
	const queue = `bad "queue" <b>&'x'`
	p.declare(topology.Spec{Queue: queue, Type: topology.Classic})
	var dead, live []publisher.Message
	for name, text := range hostile {
		for _, life := range []*[]publisher.Message{&dead, &live} {
			m := order(fmt.Sprintf("%.240s", text), counter.CauseFailed, text+"\n"+text, text)
			m.Headers["x-"+name], m.Headers[fmt.Sprintf("%.120s", text)] = text,
				amqp.Table{text[:min(len(text), 100)]: []any{text}}
			if life == &live {
				m.MessageId = "live " + m.MessageId[:min(len(m.MessageId), 230)]
			}
			*life = append(*life, m)
		}
	}
	large := order("large", counter.CausePanicked, "<script>alert(1)</script>\n", strings.Repeat("<b>", 350_000))
	large.Headers["times"] = int32(40_000) // a reason of a megabyte
	large.Headers["large"] = strings.Repeat("x", 50_000)
	p.kill(queue, append(dead, large)...)
	p.publish(queue, live...)
	p.consume(consumer.Consumer{Queue: queue, MaxRetries: 8, Concurrency: 8, Prefetch: 100, Name: hostile["handler"],
		Backoff: func(int) time.Duration {
			return time.Hour
		}})
	proctest.Eventually(t, patience, "failing messages", func() bool {
		n := 0
		for range p.counter.Admin().List(t.Context(), p.vhost, queue) {
			n++
		}
		return n == len(dead)+1+len(live)
	})

	s := p.serve(nil)
	b := newTab(t)
	pages := []string{s.url, s.at("queue", "queue", queue), s.at("doctor", "queue", queue),
		s.at("", "find", hostile["handler"])}
	pages = append(pages, s.at("dead", "queue", queue), s.at("dead", "queue", queue, "error", hostile["handler"]),
		s.at("replay", "queue", queue))
	for _, id := range p.ids(queue) {
		pages = append(pages, s.at("message", "queue", queue, "id", id))
		pages = append(pages, s.at("change", "queue", queue, "verb", "limit", "id", id))
	}
	for _, at := range pages {
		if status := b.visit(at); status >= http.StatusInternalServerError {
			t.Errorf("%s: status %d", at, status)
		}
		b.harmless()
	}
	for _, m := range append(dead, large) { // headers and body, read from the broker
		b.visit(s.at("message", "queue", queue, "id", m.MessageId))
		b.follow("main form button")
		b.harmless()
	}
	for _, at := range pages { // as a program outside the browser gets them
		res := s.ask(http.MethodGet, at, nil, nil)
		if len(res.Cookies()) > 0 || res.Header.Get("Content-Type") != "text/html; charset=utf-8" {
			t.Errorf("%s: %v", at, res.Header)
		}
	}
}

// harmless checks that the texts of messages are only text on the page.
func (b *tab) harmless() {
	b.t.Helper()
	if strings.ContainsAny(b.html(), "\u202e\u2066\x00\x1b") {
		b.t.Errorf("%s: marks that turn text, or control characters, are on the page", b.url())
	}
	if n := b.count("main script, main img, main style, main iframe, main b"); n > 0 {
		b.t.Errorf("%s: %d elements of a message are elements of the page", b.url(), n)
	}
}

// ids are those of a queue's records.
func (p *plant) ids(queue string) (all []string) {
	p.t.Helper()
	for r, err := range p.counter.Admin().List(p.t.Context(), p.vhost, queue) {
		need(p.t, err)
		all = append(all, r.ID)
	}
	return all
}
