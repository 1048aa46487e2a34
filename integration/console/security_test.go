package console

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/strikesmq/strikes/console"
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
