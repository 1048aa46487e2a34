package console

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/console"
	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/proctest"
	"github.com/strikesmq/strikes/internal/servertest"
	"github.com/strikesmq/strikes/publisher"
	"github.com/strikesmq/strikes/topology"
)

const token = "0123456789abcdef0123456789abcdef"

// TestLogin has a browser give a wrong token, then the right one and a name. The console has another name than this
// machine, so over plain HTTP the browser sends no Sec-Fetch-Site, and only Origin tells whose form it is.
func TestLogin(t *testing.T) {
	t.Parallel()
	p := newPlant(t)
	p.declare(topology.Spec{Queue: "orders"})
	s := p.serve(func(o *console.Options) { o.Token, o.Hosts = token, []string{"ops.example"} })
	s.url = strings.Replace(s.url, "127.0.0.1", "ops.example", 1)
	b := recordingTab(t) // the browser warns that it ignores Cross-Origin-Opener-Policy there
	if status := b.visit(s.at("queue", "queue", "orders")); status != http.StatusUnauthorized {
		t.Errorf("without a token: status %d", status)
	}
	if strings.Contains(b.text("body"), "orders") {
		t.Error("the login page names the queue")
	}
	b.fill("#name", "Ada")
	b.fill("#token", "wrong")
	if status := b.follow("main button"); status != http.StatusUnauthorized {
		t.Errorf("with a wrong token: status %d", status)
	}
	b.fill("#name", "Ada")
	b.fill("#token", token)
	b.follow("main button")
	b.sees("orders")
	if want := s.at("queue", "queue", "orders"); b.url() != want {
		t.Errorf("after the login the page is %s, want %s", b.url(), want)
	}
	if who := b.text("header"); !strings.Contains(who, "Ada") {
		t.Errorf("the page does not name who is logged in: %s", who)
	}
	b.follow("header form button")
	if status := b.visit(s.at("queue", "queue", "orders")); status != http.StatusUnauthorized {
		t.Errorf("after the logout: status %d", status)
	}
}

// TestPrefixes follows the links of pages under two prefixes.
func TestPrefixes(t *testing.T) {
	t.Parallel()
	p := newPlant(t)
	p.declare(topology.Spec{Queue: "orders"})
	for _, prefix := range []string{"/ops", "/a/b/strikes"} {
		t.Run(prefix, func(t *testing.T) {
			s := p.serveBelow(prefix, nil)
			b := newTab(t)
			b.visit(strings.TrimSuffix(s.url, "/")) // without the slash
			if b.url() != s.url {
				t.Errorf("%s leads to %s", strings.TrimSuffix(s.url, "/"), b.url())
			}
			b.sees("orders")
			b.everyLink(s)
		})
	}
}

// everyLink follows each link of the page, one level deep, and checks that none leads out of the console.
func (b *tab) everyLink(s *site) {
	b.t.Helper()
	seen := map[string]bool{}
	follow := func(from string) (found []string) {
		b.visit(from)
		for _, to := range b.links() {
			if !strings.HasPrefix(to, s.url) {
				b.t.Errorf("%s links to %s, outside %s", from, to, s.url)
			} else if !seen[to] {
				seen[to] = true
				found = append(found, to)
			}
		}
		return found
	}
	for _, first := range follow(s.url) {
		for _, second := range follow(first) {
			res := s.ask(http.MethodGet, second, nil, nil)
			body, _ := io.ReadAll(res.Body)
			if res.StatusCode != http.StatusOK {
				b.t.Errorf("%s links to %s: status %d: %.300s", first, second, res.StatusCode, body)
			}
		}
	}
}

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
