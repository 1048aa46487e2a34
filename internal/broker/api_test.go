package broker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
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
		"/api/queues/%2F": `{"items":[{"name":"lost","type":"classic","state":"down"},
			{"name":"stopped","type":"classic","state":"stopped"},{"name":"fine","type":"classic","state":"running"},
			{"name":"voting","type":"quorum","state":"down"},
			{"name":"all","type":"quorum","members":["a","b","c"],"online":["a","b","c"]},
			{"name":"most","type":"quorum","members":["a","b","c"],"online":["a","c"]},
			{"name":"minority","type":"quorum","members":["a","b","c"],"online":["a"]},
			{"name":"half","type":"quorum","members":["a","b","c","d"],"online":["a","b"]},
			{"name":"alone","type":"quorum","members":["a"],"online":["a"]}]}`,
	})
	all, err := m.List(t.Context(), "/")
	need(t, err)
	for _, q := range all {
		if want := slices.Contains([]string{"lost", "stopped", "minority", "half"}, q.Name); q.Away != want {
			t.Errorf("%s: away %v, want %v", q.Name, q.Away, want)
		}
	}
	if _, err := m.Queue(t.Context(), "/", "none"); len(all) != 9 || !errors.Is(err, ErrNoObject) {
		t.Errorf("%d queues are listed, and of one that does not exist: %v", len(all), err)
	}
}

func TestManagementErrors(t *testing.T) {
	m := serve(t, map[string]string{"/api/queues/%2F/page": "<html>"})
	base := m.base
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
	if want := "refused; enable the plugin rabbitmq_management, or correct host and port"; unreachable == nil ||
		!strings.HasSuffix(unreachable.Error(), want) {
		t.Errorf("nothing listens: %v", unreachable)
	}
	for answer, want := range map[string]string{
		"AMQP\x00\x00\x09\x01": "correct the port", "220 mail\r\n": "correct the port",
		"": "without a reply: correct the port",
	} {
		other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			socket, _, err := http.NewResponseController(w).Hijack()
			need(t, err)
			_, _ = socket.Write([]byte(answer))
			_ = socket.Close()
		}))
		defer other.Close()
		m.base = other.URL
		if _, err := m.Queue(ctx, "/", "none"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("a port that answers %q: %v", answer, err)
		}
	}
	m.base = strings.Replace(base, "http:", "https:", 1)
	if _, err := m.Queue(ctx, "/", "none"); err == nil || !strings.Contains(err.Error(), "write http:// instead of") {
		t.Errorf("TLS: %v", err)
	}
	m.base, m.password = base+"/api", "hush:hush"
	if err := m.Serves(ctx, &amqp.Connection{}); !errors.Is(err, ErrNoObject) ||
		!errors.Is(err, ErrURL) || !strings.Contains(err.Error(), "without /api") {
		t.Errorf("a path that ends in /api: %v", err)
	}
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

// TestAlarms has the replies of 3.10.8 and 4.3.6.
func TestAlarms(t *testing.T) {
	for _, tt := range []struct {
		name   string
		status int
		reply  string
		want   []Alarm
		fails  bool
	}{
		{"none", 200, `{"status":"ok"}`, nil, false},
		{"3.10", 503, `{"alarms":[{"node":"a@h","resource":"disk space"}],"reason":"There are alarms","status":"failed"}`,
			[]Alarm{{"a@h", "disk"}}, false},
		{"4.3", 503, `{"reason":"There are alarms","status":"failed","alarms":[{"node":"a@h","resource":"memory"},
			{"node":"b@h","resource":"disk"}]}`, []Alarm{{"a@h", "memory"}, {"b@h", "disk"}}, false},
		{"a proxy without a broker", 503, `<html>no server</html>`, nil, true},
		{"denied", 401, `{"error":"not_authorised"}`, nil, true},
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(tt.status)
			_, _ = w.Write([]byte(tt.reply))
		}))
		c, err := NewAPI(s.URL, nil)
		need(t, err)
		got, err := c.Alarms(t.Context())
		if diff := cmp.Diff(tt.want, got); (err != nil) != tt.fails || diff != "" {
			t.Errorf("%s: %v\n%s", tt.name, err, diff)
		}
		s.Close()
	}
}

func TestManagementLoad(t *testing.T) {
	m := serve(t, map[string]string{
		"/api/queues/%2F/orders": `{"name":"orders","messages_unacknowledged":7,"messages_dlx":5,"consumers":3,
			"message_stats":{"publish":90,"publish_details":{"rate":12.5},"deliver_get":80,"deliver_get_details":{"rate":3},
			"ack":40,"ack_details":{"rate":2.4},"get_no_ack":2,"deliver_no_ack":3}}`,
		"/api/queues/%2F/idle":     `{"name":"idle","messages_unacknowledged":0}`,
		"/api/queues/%2F/declared": `{"name":"declared"}`,
		"/api/queues/%2F/broken":   `[]`,
	})
	for queue, want := range map[string]Load{
		"orders":   {Unacked: 7, DeadLettering: 5, Consumers: 3, In: 12.5, Out: 3, Acked: 2.4, Taken: 45},
		"idle":     {},
		"declared": {},
	} {
		if got, err := m.load(t.Context(), "/", queue); got != want || err != nil {
			t.Errorf("%s: %+v, %v, want %+v", queue, got, err, want)
		}
	}
	if _, err := m.load(t.Context(), "/", "none"); !errors.Is(err, ErrNoObject) {
		t.Errorf("a queue that is not there: %v", err)
	}
	if _, err := m.load(t.Context(), "/", "broken"); err == nil || !strings.Contains(err.Error(),
		"not the JSON expected") {
		t.Errorf("another answer: %v", err)
	}
}

func TestObject(t *testing.T) {
	for _, tt := range []struct {
		in   string
		want amqp.Table
		bad  bool
	}{
		{in: `{"a":1}`, want: amqp.Table{"a": json.Number("1")}},
		{in: `{}`, want: amqp.Table{}},
		{in: `[]`, want: amqp.Table{}},
		{in: "[ \n]", want: amqp.Table{}},
		{in: `null`},
		{in: `[1]`, bad: true},
		{in: `[[]]`, bad: true},
		{in: `"undefined"`, bad: true},
		{in: `7`, bad: true},
	} {
		var got struct{ Field object[amqp.Table] }
		err := json.Unmarshal([]byte(`{"field": `+tt.in+` }`), &got)
		if diff := cmp.Diff(tt.want, got.Field.is); (err != nil) != tt.bad || !tt.bad && diff != "" {
			t.Errorf("%s: %v\n%s", tt.in, err, diff)
		}
	}
}

// TestListWhileAQueueGoes: the queue that moves to the page before is not missed. RabbitMQ refuses a page that is there
// no more (4.3.6).
func TestListWhileAQueueGoes(t *testing.T) {
	pages := []string{`2,"total_count":3,"items":[{"name":"a"},{"name":"b"}]`, `2,"total_count":2,"items":[]`,
		`2,"total_count":3,"items":[{"name":"a"},{"name":"b"}]`, "",
		`1,"total_count":2,"items":[{"name":"b"},{"name":"c"}]`}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if pages[0] == "" {
			w.WriteHeader(http.StatusBadRequest)
		}
		fmt.Fprintf(w, `{"page_count":%s}`, pages[0])
		pages = pages[1:]
	}))
	defer s.Close()
	m, err := NewAPI(s.URL, nil)
	need(t, err)
	all, err := m.List(t.Context(), "/")
	if err != nil || len(all) != 2 || all[1].Name != "c" {
		t.Errorf("%+v, %v", all, err)
	}
}

// replies are whole replies of the API to each request that this package makes.
var replies = map[string]string{
	"/api/queues/%2F/q": `{"name":"q","type":"quorum","arguments":{"x-delivery-limit":7},
		"effective_policy_definition":{"max-length":5},
		"message_stats":{"publish_details":{"rate":1},"deliver_get_details":{"rate":1},"ack_details":{"rate":1},"ack":3},
		"consumer_details":[{"consumer_tag":"t","ack_required":true,
		"channel_details":{"connection_name":"c"},"arguments":{"a":1}}]}`,
	"/api/queues/%2F": `{"page_count":1,"items":[{"name":"q","arguments":{"a":1},
		"effective_policy_definition":{"max-length":5},
		"message_stats":{"publish_details":{"rate":1},"deliver_get_details":{"rate":1},"ack_details":{"rate":1}}}]}`,
	"/api/queues/%2F/q/bindings":           `[{"source":"x","destination":"q","arguments":{"a":1}}]`,
	"/api/exchanges/%2F/x/bindings/source": `[{"source":"x","destination":"q","arguments":{"a":1}}]`,
	"/api/bindings/%2F":                    `[{"source":"x","destination":"q","arguments":{"a":1}}]`,
	"/api/exchanges/%2F":                   `[{"name":"x","arguments":{"a":1}}]`,
	"/api/exchanges/%2F/x":                 `{"name":"x","arguments":{"a":1}}`,
	"/api/policies/%2F":                    `[{"name":"p","definition":{"max-length":5}}]`,
	"/api/operator-policies/%2F":           `[{"name":"p","definition":{"max-length":5}}]`,
}

// TestEmptyObjects holds that each object within each reply may be [] instead.
func TestEmptyObjects(t *testing.T) {
	tried := 0
	for path, whole := range replies {
		for i := 1; i < len(whole); i++ {
			if before := strings.TrimRight(whole[:i], " "); whole[i] != '{' || !strings.HasSuffix(before, ":") {
				continue // it is no field
			}
			length := int(objectLength(t, whole[i:]))
			empty := whole[:i] + "[]" + whole[i+length:]
			answers := map[string]string{}
			for p, r := range replies {
				answers[p] = r
			}
			answers[path] = empty
			if err := askAll(t, serve(t, answers)); err != nil {
				t.Errorf("%s: %s: %v", path, empty, err)
			}
			tried++
		}
	}
	if tried < 20 {
		t.Errorf("only %d objects were tried", tried)
	}
}

// objectLength returns the length of the object with which s begins.
func objectLength(t *testing.T, s string) int64 {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader([]byte(s)))
	var object map[string]any
	need(t, decoder.Decode(&object))
	return decoder.InputOffset()
}

// askAll sends each request that this package makes.
func askAll(t *testing.T, m *API) error {
	t.Helper()
	ctx := t.Context()
	asks := map[string]func() error{
		"Queue":       func() error { _, err := m.Queue(ctx, "/", "q"); return err },
		"State":       func() error { _, err := m.State(ctx, "/", "q"); return err },
		"load":        func() error { _, err := m.load(ctx, "/", "q"); return err },
		"List":        func() error { _, err := m.List(ctx, "/"); return err },
		"Bindings":    func() error { _, err := m.Bindings(ctx, "/", "x"); return err },
		"AllBindings": func() error { _, err := m.AllBindings(ctx, "/"); return err },
		"Exchange":    func() error { _, err := m.Exchange(ctx, "/", "x"); return err },
		"Exchanges":   func() error { _, err := m.Exchanges(ctx, "/"); return err },
		"Policies":    func() error { _, err := m.Policies(ctx, "/"); return err },
	}
	for name, ask := range asks {
		if err := ask(); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// TestRepliesKeepTheirObjects holds that an object that is not empty arrives.
func TestRepliesKeepTheirObjects(t *testing.T) {
	m := serve(t, replies)
	ctx := t.Context()
	q, _ := m.Queue(ctx, "/", "q")
	state, _ := m.State(ctx, "/", "q")
	load, _ := m.load(ctx, "/", "q")
	listed, _ := m.List(ctx, "/")
	bindings, _ := m.Bindings(ctx, "/", "x")
	exchanges, _ := m.Exchanges(ctx, "/")
	policies, _ := m.Policies(ctx, "/")
	got := fmt.Sprintln(q.Args, q.Policy, state.Consumers[0].Connection(), load.In, load.Taken, listed[0].Args,
		listed[0].Policy, listed[0].In,
		bindings[0].Arguments, exchanges[0].Arguments, policies.User[0].Definition)
	const want = "map[x-delivery-limit:7] map[max-length:5] c 1 3 map[a:1] map[max-length:5] 1 map[a:1] map[a:1] " +
		"map[max-length:5]\n"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
