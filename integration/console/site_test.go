package console

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/console"
	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/integration/internal/rig"
)

// site is a console in this process, as a program embeds it.
type site struct {
	t   testing.TB
	url string // of the first page; it ends with a slash
	log *logged
}

// logged keeps the log of the console.
type logged struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// serve serves the console of a plant until the test ends. Unless change says otherwise, it allows every verb to this
// machine.
func (p *plant) serve(change func(*console.Options)) *site {
	p.t.Helper()
	return p.serveBelow("", change)
}

func (p *plant) serveBelow(prefix string, change func(*console.Options)) *site {
	p.t.Helper()
	store, err := rig.Dial(through(p.storeURL, p.store), p.prefix)
	need(p.t, err)
	p.t.Cleanup(func() { _ = store.Close() })
	s := &site{t: p.t, log: &logged{}}
	opts := console.Options{
		Store: store, Dial: consumer.Dialer(through(p.amqpURL, p.broker), amqp.Config{}), VHost: p.vhost,
		Management: through(p.managementURL, p.api),
		Allow:      console.AllVerbs(), Logger: slog.New(slog.NewTextHandler(s.log, nil)),
	}
	if change != nil {
		change(&opts)
	}
	c, err := console.New(opts)
	need(p.t, err)
	mux := http.NewServeMux()
	mux.Handle(prefix+"/", http.StripPrefix(prefix, c))
	server := httptest.NewServer(mux)
	p.t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		if err := c.Close(); err != nil {
			p.t.Errorf("closing the console: %v", err)
		}
		if p.t.Failed() {
			p.t.Logf("the console logged:\n%s", s.log)
		}
	})
	s.url = server.URL + prefix + "/"
	return s
}

// at is the address of a page. Names and values of its query follow.
func (s *site) at(page string, query ...string) string {
	q := url.Values{}
	for i := 0; i < len(query); i += 2 {
		q.Set(query[i], query[i+1])
	}
	if len(q) == 0 {
		return s.url + page
	}
	return s.url + page + "?" + q.Encode()
}

// ask sends a request as a program would, and follows no redirect. The caller may change the request.
func (s *site) ask(method, at string, form url.Values, change func(*http.Request)) *http.Response {
	s.t.Helper()
	req, err := http.NewRequestWithContext(context.Background(), method, at, strings.NewReader(form.Encode()))
	need(s.t, err)
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if change != nil {
		change(req)
	}
	client := http.Client{
		Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	res, err := client.Do(req)
	need(s.t, err)
	s.t.Cleanup(func() { _ = res.Body.Close() })
	return res
}

// page is the source of a page.
func (s *site) page(at string) string {
	s.t.Helper()
	body, err := io.ReadAll(s.ask(http.MethodGet, at, nil, nil).Body)
	need(s.t, err)
	return string(body)
}

// says reports the parts that a page lacks.
func (s *site) says(at string, parts ...string) {
	s.t.Helper()
	page := s.page(at)
	for _, part := range parts {
		if !strings.Contains(page, part) {
			s.t.Errorf("%s lacks %s: %s", at, part, page)
		}
	}
}
