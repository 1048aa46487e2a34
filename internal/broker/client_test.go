package broker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	amqp "github.com/rabbitmq/amqp091-go"
)

// serve answers GETs of escaped paths; the user is ops with the password
// hush:hush.
func serve(t *testing.T, answers map[string]string) *API {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != "ops" || password != "hush:hush" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		answer, ok := answers[r.URL.EscapedPath()]
		if !ok {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		fmt.Fprint(w, answer)
	}))
	t.Cleanup(s.Close)
	m, err := NewAPI(strings.Replace(s.URL, "://", "://ops:hush%3Ahush@", 1)+"/", nil)
	need(t, err)
	return m
}

func TestManagementQueue(t *testing.T) {
	m := serve(t, map[string]string{
		"/api/queues/%2F/orders": `{"type":"quorum","durable":true,
			"arguments":{"x-delivery-limit":7,"x-overflow":"drop-head"}}`,
		"/api/queues/a%2Bb/c%20d%2F%25": `{"type":"classic","arguments":{},"auto_delete":true,
			"effective_policy_definition":{"delivery-limit":50}}`,
	})
	got, err := m.Queue(context.Background(), "/", "orders")
	need(t, err)
	want := Queue{Name: "orders", VHost: "/", Declared: Declared{Type: "quorum", Durable: true,
		Args: amqp.Table{"x-delivery-limit": int64(7), "x-overflow": "drop-head"}}}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(Queue{})); diff != "" {
		t.Error(diff)
	}
	got, err = m.Queue(context.Background(), "a+b", "c d/%")
	need(t, err)
	want = Queue{Name: "c d/%", VHost: "a+b", PolicyKnown: true, Policy: amqp.Table{"delivery-limit": int64(50)},
		Declared: Declared{Type: "classic", AutoDelete: true, Args: amqp.Table{}}}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(Queue{})); diff != "" {
		t.Error(diff)
	}
}

// TestManagementQueueAway: the list of queues knows that a node is down.
func TestManagementQueueAway(t *testing.T) {
	m := serve(t, map[string]string{
		"/api/queues/%2F": `{"items":[{"name":"Lost","type":"classic","state":"running"},
			{"name":"lost","type":"classic","state":"down"},{"name":"stale","type":"classic","state":"down"},
			{"name":"fine","type":"classic","state":"running"},{"name":"voting","type":"quorum","state":"down"}]}`,
		"/api/queues/%2F/stale":   `{"type":"classic","state":"running"}`, // RabbitMQ 4.3
		"/api/queues/%2F/stopped": `{"type":"classic","state":"stopped"}`,
		"/api/queues/%2F/fine":    `{"type":"classic","state":"running"}`,
		"/api/queues/%2F/voting":  `{"type":"quorum","state":"running"}`,
	})
	for name, want := range map[string]bool{"lost": true, "stale": true, "stopped": true, "fine": false, "voting": false} {
		q, err := m.Queue(t.Context(), "/", name)
		if need(t, err); q.Name != name || q.Away != want {
			t.Errorf("%s: %+v, want away %v", name, q, want)
		}
	}
	if _, err := m.Queue(t.Context(), "/", "none"); !errors.Is(err, ErrNoObject) {
		t.Errorf("absent: %v", err)
	}
}

func TestManagementErrors(t *testing.T) {
	m := serve(t, map[string]string{"/api/queues/%2F/page": "<html>"})
	ctx := context.Background()
	_, err := m.Queue(ctx, "/", "none")
	if !errors.Is(err, ErrNoObject) || !strings.Contains(err.Error(), "/api/queues/%2F/none: not found") {
		t.Errorf("absent: %v", err)
	}
	if _, err := m.Queue(ctx, "/", "page"); err == nil || !strings.Contains(err.Error(), "not the JSON expected") {
		t.Errorf("not JSON: %v", err)
	}
	stopped, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := m.Queue(stopped, "/", "none"); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
	m.password = "sesame"
	_, err = m.Queue(ctx, "/", "none")
	if err == nil || !strings.Contains(err.Error(), `401 Unauthorized: user "ops"`) {
		t.Errorf("wrong password: %v", err)
	}
	m.base = "http://127.0.0.1:1"
	_, unreachable := m.Queue(ctx, "/", "none")
	for _, err := range []error{err, unreachable} {
		if err == nil || strings.Contains(err.Error(), "sesame") {
			t.Errorf("got %v, want an error without the password", err)
		}
	}
}

func TestNewManagement(t *testing.T) {
	for _, bad := range []string{"localhost:15672", "amqp://u:sesame@h", "http://", "http://u:ses%zzame@h",
		"http://u:sesame@h:x"} {
		_, err := NewAPI(bad, nil)
		if err == nil || strings.Contains(err.Error(), "ses") {
			t.Errorf("%s: got %v, want an error without the password", bad, err)
		}
	}
	m, err := NewAPI("https://mq.example:443/rabbit/?x=1#y", nil)
	if err != nil || m.base != "https://mq.example:443/rabbit" || m.user != "guest" {
		t.Errorf("got %+v, %v", m, err)
	}
}

// The error distinguishes a wrong password from a user without permissions.
func TestDenial(t *testing.T) {
	for answer, want := range map[string]error{
		`401 {"error":"not_authorized","reason":"Login failed"}`:        errLogin, // 3.10.8
		`401 {"error":"not_authorized","reason":"Not_Authorized"}`:      errLogin, // 4.0.5, 4.3.6
		`401 {"error":"not_authorized","reason":"Not management user"}`: ErrDenied,
		`403 {"error":"forbidden","reason":"x"}`:                        ErrDenied,
		`401 <html>`:                                                    ErrDenied,
	} {
		code, body, _ := strings.Cut(answer, " ")
		status, _ := strconv.Atoi(code)
		got := (&API{}).refusal(&http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader(body))})
		if errors.Is(got, errLogin) != (want == errLogin) || !errors.Is(got, ErrDenied) { //nolint:errorlint // which
			t.Errorf("%s: %v", answer, got)
		}
	}
}

// FuzzManagementURL: a URL of any form is used or refused, and its password is in no error.
func FuzzManagementURL(f *testing.F) {
	const secret = "Xq7vSecretZk9"
	for _, around := range []string{"", "/", "?", "#", "@", "%", ":", "://", "[", "\n", "%zz", " "} {
		f.Add("http://ops:", around, "@127.0.0.1:1")
		f.Add("https://", around, "@[::1]:1/path?x=y#z")
	}
	f.Fuzz(func(t *testing.T, before, around, after string) {
		raw := before + around + secret + around + after
		if escaped := url.QueryEscape(around); strings.Contains(before, "//") && len(around)%2 == 1 {
			raw = before + escaped + secret + escaped + after
		}
		m, err := NewAPI(raw, &http.Client{Transport: refusing{}})
		if err == nil {
			if u, _ := url.Parse(raw); u.User == nil || !strings.Contains(u.User.String(), secret) {
				return // it is not in the place of the password
			}
			_, err = m.Queue(context.Background(), "/", "q")
		}
		if err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("%q: %v", raw, err)
		}
	})
}

// refusing is a network that is down.
type refusing struct{}

func (refusing) RoundTrip(*http.Request) (*http.Response, error) { return nil, http.ErrServerClosed }

// TestDotsAreNoSteps: a queue may be named like a step in a path.
func TestDotsAreNoSteps(t *testing.T) {
	if got, want := escape([]string{"queues", "/", "..", "a.b+c"}), "/queues/%2F/%2E%2E/a.b%2Bc"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
