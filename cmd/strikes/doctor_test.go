package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/doctor"
	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/internal/inspect"
	"github.com/strikesmq/strikes/internal/servertest"
)

// A user who may only read, without the API, gets a finding that names the missing permission: exit 4.
func TestDoctorReadOnly(t *testing.T) {
	t.Parallel()
	queue, user := declaredQueue(t), "reader-"+uuid.NewString()
	api := managementURL(t)
	servertest.Administer(t, http.MethodPut, api+"/api/users/"+user, `{"password":"hush","tags":""}`)
	t.Cleanup(func() { servertest.Administer(t, http.MethodDelete, api+"/api/users/"+user, "") })
	servertest.Administer(t, http.MethodPut, api+"/api/permissions/%2F/"+user,
		`{"configure":"^$","write":"^$","read":".*"}`)

	at, err := url.Parse(brokerURL(t))
	need(t, err)
	at.User = url.UserPassword(user, "hush")
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{queue}, "arguments-denied"},
		{[]string{"--management-url", strings.Replace(api, "guest:guest", user+":hush", 1)}, "tag management"},
	} {
		cmd := strikesOn(t, queue, append([]string{"doctor", "--amqp-url", at.String()}, tt.args...)...)
		if code, out := ended(t, cmd); code != cli.ExitDenied || !strings.Contains(out, tt.want) ||
			strings.Contains(out, "hush") {
			t.Errorf("%q: exit code %d: %s", tt.args, code, out)
		}
	}
}

// The connection ends when the doctor asks for the delay queues. It then prints the alarm that it knows of, and the
// error, and exits with 69.
func TestDoctorLosesTheBroker(t *testing.T) {
	t.Parallel()
	queue := declaredQueue(t)
	at, err := url.Parse(brokerURL(t))
	need(t, err)
	at.Host = cutAt(t, at.Host, broker.DelayExchange)
	api, err := url.Parse(managementURL(t))
	need(t, err)
	way := httputil.NewSingleHostReverseProxy(api)
	alarmed := http.NewServeMux()
	alarmed.Handle("/", way)
	alarmed.HandleFunc("/api/health/checks/alarms", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = w.Write([]byte(`{"status":"failed","alarms":[{"node":"rabbit@h","resource":"memory"}]}`))
	})
	s := httptest.NewServer(alarmed)
	t.Cleanup(s.Close)
	beside, err := url.Parse(s.URL)
	need(t, err)
	beside.User = api.User

	var out, said bytes.Buffer
	cmd := strikesOn(t, queue, "doctor", queue, "--amqp-url", at.String(), "--management-url", beside.String())
	cmd.Stdout, cmd.Stderr = &out, &said
	_ = cmd.Run()
	if code := cmd.ProcessState.ExitCode(); code != cli.ExitUnreachable ||
		!strings.Contains(out.String(), inspect.CodeAlarm+": ") ||
		!strings.Contains(said.String(), "examining the delay queues: ") {
		t.Errorf("exit code %d, printed %s, and on stderr %s", code, &out, &said)
	}
}

// TestQueuesAreNotListed: without a QUEUE, doctor and status exit alike if the management API does not list the queues.
// So does declare, which needs the API before it deletes partitions.
func TestQueuesAreNotListed(t *testing.T) {
	t.Parallel()
	shared := newQueue(t)
	servertest.DeleteLater(t, append(broker.Partitions(shared, 3), broker.HashExchange(shared, 3))...)
	mustOutput(t, strikesOn(t, shared, "declare", shared, "--partitions", "3"))
	repartition := []string{"declare", shared, "--partitions", "2", "--repartition", "--type", "classic"}
	for name, tt := range map[string]struct {
		reply http.HandlerFunc
		code  int
	}{
		"denied": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }, cli.ExitDenied},
		"defect": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
			cli.ExitUnreachable},
		"hangs":  {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, cli.ExitUnreachable},
		"astray": {http.NotFound, cli.ExitMisuse},
	} {
		api := httptest.NewServer(tt.reply)
		t.Cleanup(api.Close)
		for _, command := range [][]string{{"status"}, {"doctor"}, repartition} {
			cmd := strikesOn(t, shared, append(command, "--management-url", api.URL)...)
			code, out := ended(t, cmd)
			if code != tt.code || !strings.HasSuffix(out, "; --management-url gives this URL\n") {
				t.Errorf("%s, %s: exit code %d, want %d: %s", command, name, code, tt.code, out)
			}
		}
	}
	for status, want := range map[int]int{http.StatusUnauthorized: cli.ExitDenied, http.StatusNotFound: cli.ExitMisuse} {
		usual := withManagement(t, brokerURL(t), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
		}))
		for _, command := range []string{"status", "doctor", "console"} {
			code, out := ended(t, strikesOn(t, newQueue(t), command, "--amqp-url", usual))
			if code != want || strings.Contains(out, "continuing") ||
				!strings.HasSuffix(out, "management API; name a queue, or give --management-url\n") {
				t.Errorf("%s, %d at the usual address: exit code %d, want %d: %s", command, status, code, want, out)
			}
		}
		if code, out := ended(t, strikesOn(t, shared, append(repartition, "--amqp-url", usual)...)); code != want {
			t.Errorf("declare, %d at the usual address: exit code %d, want %d: %s", status, code, want, out)
		}
	}
}

// cutAt returns the address of a proxy of a server. It ends a connection whose client says a word.
func cutAt(t *testing.T, server, word string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	need(t, err)
	var all sync.WaitGroup
	t.Cleanup(func() { _ = l.Close(); all.Wait() })
	all.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer client.Close()
				to, err := net.Dial("tcp", server)
				if err != nil {
					return
				}
				defer to.Close()
				all.Go(func() { _, _ = io.Copy(client, to) })
				for buf := make([]byte, 32<<10); ; {
					n, err := client.Read(buf)
					if err != nil || bytes.Contains(buf[:n], []byte(word)) {
						return
					}
					_, _ = to.Write(buf[:n])
				}
			})
		}
	})
	return l.Addr().String()
}

// A dead-letter queue wants no dead-letter queue of its own. Missing parts are found with the queue it belongs to.
func TestDoctorOfADeadLetterQueue(t *testing.T) {
	t.Parallel()
	queue, api := declaredQueue(t), managementURL(t)
	for _, state := range []string{"whole", "broken"} {
		if state == "broken" {
			servertest.Administer(t, http.MethodDelete, api+"/api/exchanges/%2F/"+queue+".dlx", "")
		}
		for _, flags := range [][]string{nil, {"--management-url", "http://127.0.0.1:1"}} {
			out := mustOutput(t, strikesOn(t, queue, append([]string{"doctor", queue + ".dlq"}, flags...)...))
			if !strings.Contains(out, "warning  takes-dead-letters: ") || !strings.Contains(out, " strikes doctor "+queue+"\n") {
				t.Errorf("%s, %q: %s", state, flags, out)
			}
		}
	}
	code, out := ended(t, strikesOn(t, queue, "doctor", queue))
	if code != cli.ExitFound || !strings.Contains(out, "dead-letter-exchange-missing") {
		t.Errorf("of the queue itself: exit code %d: %s", code, out)
	}
}

// consume finds the management API by itself, as the doctor does. It does not warn of bindings, and refuses a route
// that leads back.
func TestConsumeFindsTheManagementAPI(t *testing.T) {
	t.Parallel()
	queue, api := declaredQueue(t), managementURL(t)
	broker := usualPlace(t)
	consume := func(flags ...string) (code int, out string) {
		// Nothing is idle before this message is handled, and so not before the queue is checked.
		servertest.Administer(t, http.MethodPost, api+"/api/exchanges/%2F/amq.default/publish",
			`{"properties":{"message_id":"1"},"routing_key":"`+queue+`","payload":"","payload_encoding":"string"}`)
		args := append([]string{"consume", queue, "--exit-when-idle", "100ms"}, flags...)
		return ended(t, strikesOn(t, queue, append(args, "--amqp-url", broker, "--", "cat")...))
	}
	if code, out := consume(); code != 0 || strings.Contains(out, "bound") || strings.Contains(out, "management") {
		t.Errorf("found: exit code %d: %s", code, out)
	}
	if code, out := consume("--management-url", "http://127.0.0.1:1"); code != 0 || !strings.Contains(out,
		`(--management-url) cannot be used: `) || !strings.Contains(out, ` impact="policies and the bindings`) {
		t.Errorf("a given one that does not answer: exit code %d: %s", code, out)
	}
	servertest.Administer(t, http.MethodPost, api+"/api/bindings/%2F/e/"+queue+".dlx/q/"+queue, `{"routing_key":""}`)
	if code, out := consume(); code != cli.ExitMisuse || !strings.Contains(out, "dead-letter-loop") {
		t.Errorf("a route that leads back: exit code %d: %s", code, out)
	}
}

// usualPlace returns a URL of the broker with the management API at its port + 10000.
func usualPlace(t *testing.T) string {
	t.Helper()
	api, err := url.Parse(managementURL(t))
	need(t, err)
	return withManagement(t, brokerURL(t), &httputil.ReverseProxy{
		Transport: &http.Transport{DisableKeepAlives: true},
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: api.Scheme, Host: api.Host}) },
	})
}

// TestMissingQueue: for a queue that does not exist, each command names strikes declare.
func TestMissingQueue(t *testing.T) {
	t.Parallel()
	queue := declaredQueue(t)
	missing := queue + "x"
	for _, args := range [][]string{
		{"status", missing}, {"consume", missing, "--", "true"}, {"dead", "list", missing}, {"doctor", missing},
		{"limit", "set", missing, "--max-retries", "2", "--why", "r"},
	} {
		code, out := ended(t, strikesOn(t, queue, args...))
		if code != cli.ExitMisuse || !strings.Contains(out, "strikes declare "+missing) {
			t.Errorf("%q: exit code %d: %s", args, code, out)
		}
	}
}

func TestExitCode(t *testing.T) {
	tests := []struct {
		codes []string
		want  int
	}{
		{[]string{"auto-ack"}, 5},
		{[]string{inspect.CodeNoQueue, "auto-ack", inspect.CodeNoStore}, 5},
		{[]string{inspect.CodeNoQueue, inspect.CodeNoStore, inspect.CodeStoreDenied}, 69},
		{[]string{inspect.CodeNoQueue, inspect.CodeStoreDenied}, 4},
		{[]string{inspect.CodeNoQueue, inspect.CodeDenied}, 4},
		{[]string{inspect.CodeUnknown}, 5},
		{[]string{inspect.CodeNoQueue}, 2},
		{[]string{inspect.CodeNoDatabase}, 2},
	}
	for _, tt := range tests {
		if got := doctorExit(tt.codes); got != tt.want {
			t.Errorf("%q: %d, want %d", tt.codes, got, tt.want)
		}
	}
	if err := new(reports).verdict(); err != nil {
		t.Errorf("nothing found: %v", err)
	}
}

// A queue that could not be examined is not one in which nothing is wrong.
func TestUnexaminedQueue(t *testing.T) {
	var out bytes.Buffer
	p := reports{out: &out}
	gone := cli.WithCode(errors.New("inspect queue \"q\": refused"), cli.ExitDenied)
	need(t, p.print(doctor.Report{Subject: "queue", Name: "q", Err: gone}))
	if text := out.String(); text != "queue q: not examined: inspect queue \"q\": refused\n" {
		t.Errorf("printed %q", text)
	}
	out.Reset()
	need(t, (&reports{out: &out, json: true}).print(doctor.Report{Subject: "queue", Name: "q", VHost: "/", Err: gone}))
	if text := out.String(); text != `{"subject":"queue","name":"q","vhost":"/","not_examined":"inspect queue \"q\": `+
		`refused"}`+"\n" {
		t.Errorf("printed %q", text)
	}
	for _, tt := range []struct {
		found []inspect.Finding
		want  int
	}{{nil, cli.ExitDenied}, {[]inspect.Finding{{Code: "auto-ack", Severity: inspect.Error}}, cli.ExitFound}} {
		need(t, p.print(doctor.Report{Subject: "queue", Name: "r", Findings: tt.found}))
		err := p.verdict()
		if cli.ExitCode(err) != tt.want || !errors.Is(err, gone) || !strings.Contains(err.Error(), "1 queue not examined") {
			t.Errorf("%v, exit %d, want %d", err, cli.ExitCode(err), tt.want)
		}
	}
}

// A finding may quote text from anywhere.
func TestReportEscapes(t *testing.T) {
	var out bytes.Buffer
	p := reports{out: &out}
	bad := inspect.Finding{Code: "c", Severity: inspect.Error, Seen: "\x1b[2J", Impact: "a\nb", Fix: "\x07",
		Commands: []string{"\u202e"}}
	report := doctor.Report{Subject: "queue", Name: "q\r", VHost: "/", Proven: []string{"\x1b"},
		Findings: []inspect.Finding{bad}}
	need(t, p.print(report))
	if strings.ContainsAny(out.String(), "\x1b\x07\r\u202e") || strings.Count(out.String(), "\n") != 7 {
		t.Errorf("%q", out.String())
	}
	out.Reset()
	p.json = true
	need(t, p.print(report))
	var got struct{ Name, Seen, VHost string }
	if err := json.Unmarshal(out.Bytes(), &got); err != nil || got.Name != "q\r" || got.Seen != bad.Seen ||
		got.VHost != "/" || strings.Contains(out.String(), "\x1b") {
		t.Errorf("%q: %+v, %v", out.String(), got, err)
	}
	var left cli.Coded
	if err := p.verdict(); !errors.As(err, &left) || left.Code != cli.ExitFound {
		t.Errorf("verdict: %v", err)
	}
}

// One policy may fix several findings: its command is long, and printed once.
func TestACommandIsPrintedOnce(t *testing.T) {
	finding := func(code string, commands ...string) inspect.Finding {
		f := inspect.Finding{Code: code, Severity: inspect.Error, Seen: "s", Impact: "i", Fix: "f", Commands: commands}
		if len(commands) > 0 {
			f.Repair = "strikes doctor --fix q"
		}
		return f
	}
	got := reportText(doctor.Report{Subject: "queue", Name: "q", Findings: []inspect.Finding{
		finding("a", "curl 0", "curl 1"), finding("b"), finding("c", "curl 0", "curl 1"), finding("d", "curl 2"),
	}})
	if strings.Count(got, "           curl 0\n           curl 1\n") != 1 || strings.Count(got, "curl 2\n") != 1 ||
		strings.Count(got, "fix: f: what fixes a does it\n") != 1 || strings.Count(got,
		"run: strikes doctor --fix q\n") != 2 {
		t.Error(got)
	}
}
