package console

import (
	"io"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/strikesmq/strikes/console"
	"github.com/strikesmq/strikes/topology"
)

const token = "0123456789abcdef0123456789abcdef"

// requests are one for each route of the handler: the pages that only show something, and those that change something.
var (
	reading = []string{
		"GET /", "GET /queue", "GET /live", "GET /doctor", "POST /doctor", "GET /audit", "GET /audit.ndjson", "GET /dead",
		"GET /message", "POST /message", "POST /count", "GET /replay", "GET /drop", "GET /lanes", "GET /lane",
	}
	writing = map[string][]string{"/change": {"reset", "skip", "limit", "pause"}}
	// jobs have a preview that everybody may see.
	jobs = map[string][]string{"POST /replay": {"replay"}, "POST /drop": {"drop"}, "POST /lane": {"replay", "drop"},
		"GET /file": {"drop"}}
)

var routes = regexp.MustCompile(`HandleFunc\("(GET|POST) (/[^"{]*)`)

// TestRoutesAreKnown compares the tables above with the console's source: a new route must come with its test.
func TestRoutesAreKnown(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("../../console/routes.go")
	need(t, err)
	for _, m := range routes.FindAllStringSubmatch(string(source), -1) {
		method, path := m[1], m[2]
		_, writes := writing[path]
		if !writes && jobs[method+" "+path] == nil && path != "/logout" && path != "/stop" &&
			!slices.Contains(reading, method+" "+path) {
			t.Errorf("%s %s is in no table of this test", method, path)
		}
	}
}

// TestForbiddenJobs posts the requests that begin or stop a replay or a drop, and asks for a file of dropped messages.
func TestForbiddenJobs(t *testing.T) {
	t.Parallel()
	p := newPlant(t)
	p.declare(topology.Spec{Queue: "orders"})
	nothing := p.serve(func(o *console.Options) { o.Allow = nil })
	form := url.Values{"why": {"because"}, "count": {"1"}}
	for route, verbs := range jobs {
		method, path, _ := strings.Cut(route, " /")
		for _, verb := range verbs {
			butOne := p.serve(func(o *console.Options) {
				o.Allow = slices.DeleteFunc(console.AllVerbs(), func(v console.Verb) bool { return string(v) == verb })
			})
			for _, s := range []*site{nothing, butOne} {
				if res := s.ask(method, s.at(path, "queue", "orders", "name", "x", "lane", "a1", "verb", verb), form,
					nil); res.StatusCode != http.StatusForbidden {
					t.Errorf("%s, %s: status %d, want 403", route, verb, res.StatusCode)
				}
			}
		}
	}
	if res := nothing.ask(http.MethodPost, nothing.at("stop", "queue", "orders"), form, nil); res.StatusCode/100 != 4 {
		t.Errorf("POST /stop: status %d, want 4xx", res.StatusCode)
	}
}

// TestHeaders checks the headers that every response carries, whatever its status.
func TestHeaders(t *testing.T) {
	t.Parallel()
	p := newPlant(t)
	p.declare(topology.Spec{Queue: "orders"})
	s := p.serve(func(o *console.Options) { o.Allow = nil })
	want := map[string]string{
		"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "no-referrer",
		"Cache-Control": "no-store",
	}
	for _, at := range []string{s.url, s.at("queue", "queue", "orders"), s.at("queue", "queue", "none"), s.at("change",
		"verb", "limit", "queue", "orders"), s.at("nowhere"), s.at("live")} {
		res := s.ask(http.MethodGet, at, nil, nil)
		for name, value := range want {
			if got := res.Header.Get(name); got != value {
				t.Errorf("%s: %s is %q, want %q", at, name, got, value)
			}
		}
		policy := res.Header.Get("Content-Security-Policy")
		for _, part := range []string{"default-src 'none'", "script-src 'self'", "style-src 'self'", "form-action 'self'",
			"frame-ancestors 'none'", "base-uri 'none'"} {
			if !strings.Contains(policy, part) {
				t.Errorf("%s: no %s in the policy %q", at, part, policy)
			}
		}
		if strings.Contains(policy, "unsafe") {
			t.Errorf("%s: the policy is %q", at, policy)
		}
	}
}

// TestLogin has a browser give a wrong token, then the right one and a name.
func TestLogin(t *testing.T) {
	t.Parallel()
	p := newPlant(t)
	p.declare(topology.Spec{Queue: "orders"})
	s := p.serve(func(o *console.Options) { o.Token = token })
	b := newTab(t)
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

// TestTokenIsAsked sends every request of the tables without a token and with wrong ones.
func TestTokenIsAsked(t *testing.T) {
	t.Parallel()
	p := newPlant(t)
	p.declare(topology.Spec{Queue: "orders"})
	s := p.serve(func(o *console.Options) { o.Token = token })
	bearer := func(token string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) }
	}
	cookie := func(value string) func(*http.Request) {
		return func(r *http.Request) { r.AddCookie(&http.Cookie{Name: "strikes-console", Value: value}) }
	}
	var all []string
	all = append(all, reading...)
	for path := range writing {
		all = append(all, "GET "+path, "POST "+path)
	}
	for _, route := range all {
		method, path, _ := strings.Cut(route, " /")
		at := s.at(path, "queue", "orders", "verb", "limit", "screen", "queue")
		for what, change := range map[string]func(*http.Request){"no token": nil,
			"a forged cookie": cookie("99999999999.QWRh.AAAA")} {
			if res := s.ask(method, at, nil, change); res.StatusCode != http.StatusUnauthorized {
				t.Errorf("%s %s with %s: status %d, want 401", method, at, what, res.StatusCode)
			}
		}
	}
	if res := s.ask(http.MethodGet, s.url, nil, bearer("wrong")); res.StatusCode != http.StatusUnauthorized {
		t.Errorf("with a wrong bearer token: status %d", res.StatusCode)
	}
	if res := s.ask(http.MethodGet, s.url, nil, bearer(token)); res.StatusCode != http.StatusOK {
		t.Errorf("with the bearer token: status %d", res.StatusCode)
	}
	res := s.ask(http.MethodPost, s.at("login"), url.Values{"name": {"Ada"}, "token": {token}}, nil)
	cookies := res.Cookies()
	if res.StatusCode != http.StatusSeeOther || len(cookies) != 1 {
		t.Fatalf("login: status %d, %d cookies", res.StatusCode, len(cookies))
	}
	if c := cookies[0]; !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Secure ||
		strings.Contains(c.Value, token) {
		t.Errorf("the cookie is %q", c.Raw)
	}
	if strings.Contains(s.log.String(), token) {
		t.Error("the log holds the token")
	}
}

// TestWrongTokensAreLimited guesses faster than a person does.
func TestWrongTokensAreLimited(t *testing.T) {
	t.Parallel()
	p := newPlant(t)
	s := p.serve(func(o *console.Options) { o.Token = token })
	limited := func(guess func(i int) *http.Response) bool {
		for i := range 20 {
			if guess(i).StatusCode == http.StatusTooManyRequests {
				return true
			}
		}
		return false
	}
	if !limited(func(int) *http.Response {
		return s.ask(http.MethodPost, s.at("login"), url.Values{"name": {"Eve"}, "token": {"guess"}}, nil)
	}) {
		t.Error("20 guesses at the login page were all answered")
	}
	if !limited(func(int) *http.Response {
		return s.ask(http.MethodGet, s.url, nil, func(r *http.Request) { r.Header.Set("Authorization", "Bearer guess") })
	}) {
		t.Error("20 guesses of a bearer token were all answered")
	}
}

// TestPrefixes follows the links of pages under two prefixes, one of which a proxy cuts off.
func TestPrefixes(t *testing.T) {
	t.Parallel()
	p := newPlant(t)
	p.declare(topology.Spec{Queue: "orders"})
	for _, prefix := range []string{"/ops", "/a/b/strikes"} {
		t.Run(prefix, func(t *testing.T) {
			s := p.serve(func(o *console.Options) { o.Prefix = prefix })
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
