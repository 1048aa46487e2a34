package console

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/redis/go-redis/v9"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/deadletter"
)

const token = "a token of enough bytes"

// TestHeaders: every answer has them, whatever its status.
func TestHeaders(t *testing.T) {
	f := newFixture(t, Options{})
	for _, at := range []string{"/", query("queue"), query("change", "verb", "limit"), "/nowhere", "/live"} {
		h := f.get(at).Header()
		for name, want := range map[string]string{
			"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "same-origin",
			"Cache-Control": "no-store",
		} {
			if got := h.Get(name); got != want {
				t.Errorf("%s: %s is %q, want %q", at, name, got, want)
			}
		}
		allows := h.Get("Content-Security-Policy")
		says(t, allows, "default-src 'none'", "script-src 'self'", "style-src 'self'", "form-action 'self'",
			"frame-ancestors 'none'", "base-uri 'none'")
		if strings.Contains(allows, "unsafe") {
			t.Errorf("%s: the policy is %q", at, allows)
		}
	}
}

func TestForeignRequests(t *testing.T) {
	f := newFixture(t, Options{Allow: AllVerbs()})
	form := url.Values{"why": {"r"}}
	pause := query("change", "verb", "pause")
	asHost := func(name string) func(*http.Request) { return func(r *http.Request) { r.Host = name } }
	navigation := func(dest string) func(*http.Request) {
		return func(r *http.Request) {
			r.Header.Set("Sec-Fetch-Site", "cross-site")
			r.Header.Set("Sec-Fetch-Mode", "navigate")
			r.Header.Set("Sec-Fetch-Dest", dest)
		}
	}
	for name, tt := range map[string]struct {
		code   int
		form   url.Values
		change func(*http.Request)
	}{
		"own":                    {200, nil, header("Sec-Fetch-Site", "same-origin")},
		"typed":                  {200, nil, header("Sec-Fetch-Site", "none")},
		"rebound host":           {403, nil, asHost("evil.example:9463")},
		"own host and port":      {200, nil, asHost("127.0.0.1:9463")},
		"IPv6":                   {200, nil, asHost("[::1]:9463")},
		"foreign Origin":         {403, nil, header("Origin", "https://evil.example")},
		"foreign form":           {403, form, header("Origin", "https://evil.example")},
		"null without vouch":     {403, form, header("Origin", "null")},
		"foreign fetch":          {403, nil, header("Sec-Fetch-Site", "cross-site")},
		"link of another site":   {200, nil, navigation("document")},
		"frame of another site":  {403, nil, navigation("iframe")},
		"object of another site": {403, nil, navigation("object")},
		"navigation to nowhere":  {403, nil, navigation("")},
		"sibling":                {403, form, header("Sec-Fetch-Site", "same-site")},
		"own form": {303, form, func(r *http.Request) {
			r.Header.Set("Origin", "null")
			r.Header.Set("Sec-Fetch-Site", "same-origin")
		}},
		"own form over plain HTTP": {303, form, header("Origin", host)},
		"another machine":          {403, nil, func(r *http.Request) { r.RemoteAddr = "192.0.2.7:1" }},
	} {
		t.Run(name, func(t *testing.T) {
			method := http.MethodGet
			if tt.form != nil {
				method = http.MethodPost
			}
			if w := f.send(method, pause, tt.form, tt.change); w.Code != tt.code {
				t.Errorf("%d, want %d: %.200s", w.Code, tt.code, w.Body)
			}
		})
	}
}

func TestForbiddenVerbs(t *testing.T) {
	for _, verb := range AllVerbs() {
		others := Verbs(nil)
		for _, v := range AllVerbs() {
			if v != verb {
				others = append(others, v)
			}
		}
		f := newFixture(t, Options{Allow: others})
		f.fail(t, "m-1")
		form := url.Values{"why": {"r"}, "number": {"1"}, "count": {"1"}}
		for _, path := range verbPaths(verb) {
			if w := f.post(path, form); w.Code != http.StatusForbidden {
				t.Errorf("POST %s: %d, want 403", path, w.Code)
			}
		}
		if log, err := f.store.AuditLog(t.Context(), "/", "orders", "", 10); err != nil || len(log) > 0 {
			t.Errorf("%s left %v in the audit, %v", verb, log, err)
		}
	}
}

// routesOf are the routes with a method in the source, so that a new one is tested too.
func routesOf(t *testing.T, method string) (paths []string) {
	t.Helper()
	source, err := os.ReadFile("routes.go")
	need(t, err)
	for _, m := range regexp.MustCompile(`"`+method+` /([^"{]*)`).FindAllStringSubmatch(string(source), -1) {
		paths = append(paths, m[1])
	}
	if len(paths) < 7 {
		t.Fatalf("only %q are found", paths)
	}
	return paths
}

// TestForbiddenRoutes: a visitor without a verb may send no form but those that change no message.
func TestForbiddenRoutes(t *testing.T) {
	f := newFixture(t, Options{})
	for _, path := range routesOf(t, http.MethodPost) {
		want := http.StatusForbidden
		switch path {
		case "doctor", "message", "logout":
			continue
		case "stop": // nothing runs
			want = http.StatusNotFound
		}
		at := query(path, "verb", "replay")
		if w := f.post(at, url.Values{"why": {"r"}, "count": {"1"}}); w.Code != want {
			t.Errorf("POST %s: %d, want %d", at, w.Code, want)
		}
	}
}

// TestTokenIsAsked: no route answers without the token, which is not in the log.
func TestTokenIsAsked(t *testing.T) {
	logged := &journal{}
	f := newFixture(t, Options{Token: token, Logger: slog.New(slog.NewTextHandler(logged, nil))})
	forged := func(r *http.Request) { r.AddCookie(&http.Cookie{Name: cookieName, Value: "99999999999.QWRh.AAAA"}) }
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		for _, path := range routesOf(t, method) {
			at := query(path, "verb", "limit", "screen", "queue")
			for what, change := range map[string]func(*http.Request){
				"no token": func(*http.Request) {}, "a forged cookie": forged,
			} {
				if w := f.send(method, at, nil, change); w.Code != http.StatusUnauthorized {
					t.Errorf("%s %s with %s: %d, want 401", method, at, what, w.Code)
				}
			}
		}
	}
	answers(t, f.post("/login", url.Values{"name": {"Ada"}, "token": {token}}), http.StatusSeeOther)
	if strings.Contains(logged.String(), token) {
		t.Error("the log holds the token")
	}
}

// verbPaths are the addresses that use a verb.
func verbPaths(verb Verb) []string {
	if verb == VerbReplay || verb == VerbDrop {
		return []string{query(string(verb)), query(string(verb), "id", "m-1")}
	}
	change := query("change", "verb", string(verb), "id", "m-1")
	return []string{change, change + "&undo=1"}
}

func TestAuthorize(t *testing.T) {
	f := newFixture(t, Options{Allow: Verbs{VerbPause}, Authorize: func(r *http.Request) (string, Verbs, error) {
		if r.Header.Get("X-User") == "" {
			return "", nil, errors.New("who are you?")
		}
		return r.Header.Get("X-User"), AllVerbs(), nil
	}})
	answers(t, f.get("/"), http.StatusForbidden)
	ann := header("X-User", "ann")
	answers(t, f.get("/", ann), http.StatusOK, "ann")
	answers(t, f.post(query("change", "verb", "limit"), url.Values{"why": {"r"}, "number": {"3"}}, ann),
		http.StatusForbidden)
	answers(t, f.post(query("change", "verb", "pause"), url.Values{"why": {"r"}}, ann), http.StatusSeeOther)
	if log, err := f.store.AuditLog(t.Context(), "/", "orders", "", 10); err != nil || len(log) != 1 ||
		log[0].Actor != "ann" {
		t.Errorf("audit %v, %v", log, err)
	}
}

func TestLogin(t *testing.T) {
	f := newFixture(t, Options{Token: token})
	away := func(r *http.Request) { r.RemoteAddr = "192.0.2.7:1" }
	w := f.get("/?find=x", away)
	if w.Code != http.StatusUnauthorized || !strings.Contains(w.Body.String(), `value="?find=x"`) {
		t.Fatalf("%d: %s", w.Code, w.Body)
	}
	form := url.Values{"token": {"wrong"}, "name": {"ann"}, "next": {"?find=x"}}
	answers(t, f.post("/login", form, away), http.StatusUnauthorized)
	form.Set("token", token)
	form.Del("name")
	answers(t, f.post("/login", form, away), http.StatusUnprocessableEntity)
	form.Set("name", "ann")
	w = f.post("/login", form, away)
	cookies := w.Result().Cookies()
	if w.Code != http.StatusSeeOther || w.Header().Get("Location") != "./?find=x" || len(cookies) != 1 {
		t.Fatalf("%d to %s, %v", w.Code, w.Header().Get("Location"), cookies)
	}
	if k := cookies[0]; !k.HttpOnly || k.SameSite != http.SameSiteStrictMode || k.Path != "" ||
		strings.Contains(k.Value, token) {
		t.Errorf("cookie %v", k)
	}
	with := func(value string) func(*http.Request) {
		return func(r *http.Request) {
			away(r)
			r.AddCookie(&http.Cookie{Name: cookieName, Value: value})
		}
	}
	answers(t, f.get("/", with(cookies[0].Value)), http.StatusOK, "ann")
	answers(t, f.get("/", with("9999999999.YW5u."+strings.Repeat("A", 43))), http.StatusUnauthorized)
	answers(t, f.get("/", away, header("Authorization", "Bearer "+token)), http.StatusOK)
	answers(t, f.get("/", away, header("Authorization", "Bearer nearly")), http.StatusUnauthorized)
}

// TestLogoutEndsStreams: an open page ends with its login, and the cookie counts no more.
func TestLogoutEndsStreams(t *testing.T) {
	f := newFixture(t, Options{Token: token})
	login := f.post("/login", url.Values{"token": {token}, "name": {"ann"}}).Result().Cookies()
	if len(login) != 1 {
		t.Fatalf("cookies %v", login)
	}
	as := func(r *http.Request) { r.AddCookie(login[0]) }
	ended := make(chan int)
	go func() { ended <- f.get("/live?screen=queues", as, header("Accept", "text/event-stream")).Code }()
	for f.streams.Load() == 0 {
		select {
		case code := <-ended:
			t.Fatalf("the stream did not begin: %d", code)
		case <-time.After(10 * time.Millisecond):
		}
	}
	f.post("/logout", nil, as)
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Error("the stream goes on after the logout")
	}
	answers(t, f.get("/", as), http.StatusUnauthorized)
	again := newFixture(t, Options{Token: token}) // a restart does not revive the login
	answers(t, again.get("/", as), http.StatusUnauthorized)
}

func TestGuard(t *testing.T) {
	f := newFixture(t, Options{Token: token})
	guarded := f.Guard(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for name, tt := range map[string]struct {
		host, bearer string
		code         int
	}{
		"token": {"localhost", token, 200}, "no token": {"localhost", "", 403}, "wrong token": {"localhost", "wrong", 403},
		"rebound host": {"evil.example", token, 403},
	} {
		r := httptest.NewRequest(http.MethodGet, host+"/metrics", nil)
		r.Host = tt.host
		r.Header.Set("Authorization", "Bearer "+tt.bearer)
		w := httptest.NewRecorder()
		if guarded.ServeHTTP(w, r); w.Code != tt.code {
			t.Errorf("%s: %d, want %d", name, w.Code, tt.code)
		}
	}
}

func TestNextAfterLogin(t *testing.T) {
	for next, want := range map[string]string{
		"queue?queue=a%2Fb": "queue?queue=a%2Fb", "": "./", "?find=x": "./?find=x", "//evil.example/": "./",
		"https://evil.example": "./", "/\\evil": "./",
		"javascript:alert(1)": "./", "../x": "./", "\x00": "./",
	} {
		if got := cleanNext(next); got != want {
			t.Errorf("%q leads to %q, want %q", next, got, want)
		}
	}
}

func TestPrefixes(t *testing.T) {
	for _, prefix := range []string{"", "/ops", "/ops/strikes"} {
		f := newFixture(t, Options{})
		get := func(path string) *httptest.ResponseRecorder {
			r, w := httptest.NewRequest(http.MethodGet, host+prefix+path, nil), httptest.NewRecorder()
			r.RemoteAddr = "127.0.0.1:1234"
			http.StripPrefix(prefix, f).ServeHTTP(w, r)
			return w
		}
		if w := get("/"); w.Code != http.StatusOK || strings.Contains(w.Body.String(), `href="/`) {
			t.Errorf("%q: %d, or a link that is not relative", prefix, w.Code)
		}
		if w := get("/static/style.css"); w.Code != http.StatusOK {
			t.Errorf("%q: style %d", prefix, w.Code)
		}
		if w := get("/static/"); w.Code != http.StatusNotFound {
			t.Errorf("%q: a list of files, %d", prefix, w.Code)
		}
	}
}

// TestAuditNamesTheChange: an address cannot make the audit name another change than the one that is made.
func TestAuditNamesTheChange(t *testing.T) {
	f := newFixture(t, Options{Allow: AllVerbs()})
	f.fail(t, "m-1")
	for _, verb := range []Verb{VerbSkip, VerbReset} {
		change := query("change", "verb", string(verb), "id", "m-1", "undo", "1")
		if w := f.post(change, url.Values{"why": {"r"}, "number": {"1"}}); w.Code != http.StatusUnprocessableEntity {
			t.Errorf("%s that undoes: %d, want 422", verb, w.Code)
		}
	}
	if log, err := f.store.AuditLog(t.Context(), "/", "orders", "", 10); err != nil || len(log) > 0 {
		t.Errorf("audit %v, %v", log, err)
	}
}

// TestChangesAreLogged: the log has each change, and the page says that the audit lacks it only if that is so.
func TestChangesAreLogged(t *testing.T) {
	logged := &journal{}
	f := newFixture(t, Options{Allow: AllVerbs(), Actor: "ann", Logger: slog.New(slog.NewTextHandler(logged, nil))})
	f.fail(t, "m-1")
	f.redis.HSet("strikes:1:{%2F/orders}:limit", "max_retries", "many") // by another program
	form := url.Values{"why": {"the bank is back"}, "number": {"3"}}
	page := f.follow(t, f.post(query("change", "verb", "limit", "id", "m-1"), form))
	says(t, page, "consumers ignore the override")
	if strings.Contains(page, "The audit ") {
		t.Errorf("an audit that was written is said to lack the change: %s", page)
	}
	f.redis.Del("strikes:1:{%2F/orders}:audit")
	need(t, f.redis.Set("strikes:1:{%2F/orders}:audit", "of another program"))
	says(t, f.follow(t, f.post(query("change", "verb", "skip", "id", "m-1"), form)), "The audit log lacks this skip")
	says(t, logged.String(), `verb="set limit" queue=orders id=m-1 actor=ann reason="the bank is back"`,
		"verb=skip queue=orders id=m-1")
}

// counted counts the bytes that are read from it.
type counted struct {
	io.Reader
	read int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.read += int64(n)
	return n, err
}

// TestLargeForms: the console reads no more than a form, and keeps nothing on disk. A login comes before it knows the
// visitor.
func TestLargeForms(t *testing.T) {
	f := newFixture(t, Options{Token: token})
	for _, method := range []string{http.MethodPost, http.MethodGet} {
		part := "--b\r\nContent-Disposition: form-data; name=\"f\"; filename=\"f\"\r\n\r\n"
		body := &counted{Reader: io.MultiReader(strings.NewReader(part), strings.NewReader(strings.Repeat("x", 4<<20)))}
		r := httptest.NewRequest(method, host+"/login", body)
		r.Header.Set("Content-Type", "multipart/form-data; boundary=b")
		f.ServeHTTP(httptest.NewRecorder(), r)
		if body.read > 2*largestForm {
			t.Errorf("%s: the console read %d bytes", method, body.read)
		}
	}
}

// TestDropThatDoesNotBegin leaves no file, open or empty.
func TestDropThatDoesNotBegin(t *testing.T) {
	f := newFixture(t, dropping(t))
	f.kill(t, "r", "m-1")
	f.redis.SetError("down")
	answers(t, f.post(query("drop"), url.Values{"count": {"1"}, "why": {"r"}}), http.StatusServiceUnavailable)
	f.redis.SetError("")
	// the audit cannot be written
	if _, err := f.redis.Push("strikes:1:{%2F/orders}:audit:last", "of another program"); err != nil {
		t.Fatal(err)
	}
	answers(t, f.post(query("drop"), url.Values{"count": {"1"}, "why": {"r"}}), http.StatusSeeOther)
	says(t, f.ended(t), "nothing was done")
	if files, err := os.ReadDir(f.opts.DropDir); err != nil || len(files) > 0 {
		t.Errorf("%v, %v", files, err)
	}
}

// panicking is a hook of a store's client.
type panicking struct {
	on atomic.Bool
}

func (p *panicking) DialHook(next redis.DialHook) redis.DialHook { return next }

func (p *panicking) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if p.on.Load() {
			panic("the store's hook")
		}
		return next(ctx, cmd)
	}
}

func (p *panicking) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if p.on.Load() {
			panic("the store's hook")
		}
		return next(ctx, cmds)
	}
}

// journal keeps the log.
type journal struct {
	mu   sync.Mutex
	text strings.Builder
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

// TestPanicsAreRecovered has the store's client panic in whatever goroutine asks it. The program must survive each page
// and a job.
func TestPanicsAreRecovered(t *testing.T) {
	server := miniredis.RunT(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), MaxRetries: -1, ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = client.Close() })
	hook, logged := &panicking{}, &journal{}
	client.AddHook(hook)
	o := Options{
		Store: counter.New(client, nil), Management: "http://localhost:15672", Allow: AllVerbs(),
		Logger: slog.New(slog.NewTextHandler(logged, nil)),
		Dial:   func(context.Context) (*amqp.Connection, error) { return nil, errors.New("no broker in this test") },
	}.withDefaults()
	need(t, o.validate())
	b := &fakeBroker{status: hostileStatus(), dead: &fakeLetters{all: []*deadletter.Message{{ID: "m-1"}, {ID: "m-2"}},
		gate: make(chan struct{})}}
	f := &fixture{newConsole(o, b, endless), b, server}
	t.Cleanup(func() { _ = f.Close() })

	answers(t, f.post(query("replay"), url.Values{"why": {"fixed"}, "count": {"2"}}), http.StatusSeeOther)
	b.dead.gate <- struct{}{} // its beginning is in the audit
	hook.on.Store(true)
	b.dead.gate <- struct{}{} // its end enters the audit, which panics
	f.jobs.running.Wait()
	if s := f.jobs.of("orders").State(); s.Ended.IsZero() || s.OK || !strings.Contains(s.Result, errPanicked.Error()) {
		t.Errorf("the job: %+v", s)
	}
	for _, path := range []string{query("dead"), query("audit"), query("queue")} {
		if w := f.get(path); w.Code != http.StatusInternalServerError || !strings.Contains(w.Body.String(),
			errPanicked.Error()) {
			t.Errorf("%s: %d: %s", path, w.Code, w.Body)
		}
	}
	if !strings.Contains(logged.String(), "the store's hook") || !strings.Contains(logged.String(), "security_test.go") {
		t.Errorf("the log lacks the panic or its stack: %s", logged)
	}
	b.panics.Store(true)
	f.get("/queue?queue=bookings") // not read before
	hook.on.Store(false)
	b.panics.Store(false)
	for _, path := range []string{query("dead"), "/queue?queue=bookings"} {
		if w := f.get(path); w.Code != http.StatusOK || strings.Contains(w.Body.String(), errPanicked.Error()) {
			t.Errorf("%s after that: %d: %s", path, w.Code, w.Body)
		}
	}
}
