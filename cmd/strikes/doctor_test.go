package main

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/internal/inspect"
	"github.com/strikesmq/strikes/internal/servertest"
)

// A user who may only read, without the API, gets a finding that names the missing permission: exit 4.
func TestDoctorReadOnly(t *testing.T) {
	t.Parallel()
	queue, user := "cli."+uuid.NewString(), "reader-"+uuid.NewString()
	servertest.DeleteLater(t, queue)
	mustOutput(t, strikesOn(t, queue, "declare", queue))
	api := managementURL(t)
	manage(t, api, "PUT", "users/"+user, `{"password":"hush","tags":""}`)
	t.Cleanup(func() { manage(t, api, "DELETE", "users/"+user, "") })
	manage(t, api, "PUT", "permissions/%2F/"+user, `{"configure":"^$","write":"^$","read":".*"}`)

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
		out, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != cli.ExitDenied || !strings.Contains(string(out), tt.want) ||
			strings.Contains(string(out), "hush") {
			t.Errorf("%q: %v: %s", tt.args, err, out)
		}
	}
}

// The connection ends when the doctor asks for the delay queues. It then prints the alarm that it knows of, and the
// error, and exits with 69.
func TestDoctorLosesTheBroker(t *testing.T) {
	t.Parallel()
	queue := "cli." + uuid.NewString()
	servertest.DeleteLater(t, queue)
	mustOutput(t, strikesOn(t, queue, "declare", queue))
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
	var exit *exec.ExitError
	if err := cmd.Run(); !errors.As(err, &exit) || exit.ExitCode() != cli.ExitUnreachable ||
		!strings.Contains(out.String(), inspect.CodeAlarm+": ") ||
		!strings.Contains(said.String(), "examining the delay queues: ") {
		t.Errorf("%v, printed %s, and on stderr %s", err, &out, &said)
	}
}

// TestQueuesAreNotListed: without a QUEUE, doctor and status exit alike if the management API does not list the queues.
func TestQueuesAreNotListed(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		reply http.HandlerFunc
		code  int
	}{
		"denied": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }, cli.ExitDenied},
		"defect": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
			cli.ExitUnreachable},
		"hangs": {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, cli.ExitUnreachable},
	} {
		api := httptest.NewServer(tt.reply)
		t.Cleanup(api.Close)
		for _, command := range []string{"status", "doctor"} {
			cmd := strikesOn(t, "cli."+uuid.NewString(), command, "--management-url", api.URL)
			out, err := cmd.CombinedOutput()
			if cmd.ProcessState.ExitCode() != tt.code {
				t.Errorf("%s, %s: %v, want exit code %d: %s", command, name, err, tt.code, out)
			}
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

func manage(t *testing.T, api, method, path, body string) {
	t.Helper()
	out, err := exec.Command("curl", "-sSf", "-X", method, "-H", "content-type: application/json", "-d", body, api+"/api/"+
		path).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v: %s", method, path, err, out)
	}
}

// A dead-letter queue wants no dead-letter queue of its own. Missing parts are found with the queue it belongs to.
func TestDoctorOfADeadLetterQueue(t *testing.T) {
	t.Parallel()
	queue, api := "cli."+uuid.NewString(), managementURL(t)
	servertest.DeleteLater(t, queue)
	mustOutput(t, strikesOn(t, queue, "declare", queue))
	for _, state := range []string{"whole", "broken"} {
		if state == "broken" {
			manage(t, api, "DELETE", "exchanges/%2F/"+queue+".dlx", "")
		}
		for _, flags := range [][]string{nil, {"--management-url", "http://127.0.0.1:1"}} {
			out := mustOutput(t, strikesOn(t, queue, append([]string{"doctor", queue + ".dlq"}, flags...)...))
			if !strings.Contains(out, "warning  takes-dead-letters: ") || !strings.Contains(out, " strikes doctor "+queue+"\n") {
				t.Errorf("%s, %q: %s", state, flags, out)
			}
		}
	}
	out, err := strikesOn(t, queue, "doctor", queue).Output()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != cli.ExitFound || !strings.Contains(string(out),
		"dead-letter-exchange-missing") {
		t.Errorf("of the queue itself: %v: %s", err, out)
	}
}

// consume finds the management API by itself, as the doctor does. It does not warn of bindings, and refuses a route
// that leads back.
func TestConsumeFindsTheManagementAPI(t *testing.T) {
	t.Parallel()
	queue, api := "cli."+uuid.NewString(), managementURL(t)
	servertest.DeleteLater(t, queue)
	mustOutput(t, strikesOn(t, queue, "declare", queue))
	broker := usualPlace(t)
	consume := func(flags ...string) (string, error) {
		// Nothing is idle before this message is handled, and so not before the queue is checked.
		manage(t, api, "POST", "exchanges/%2F/amq.default/publish",
			`{"properties":{"message_id":"1"},"routing_key":"`+queue+`","payload":"","payload_encoding":"string"}`)
		args := append([]string{"consume", queue, "--exit-when-idle", "100ms"}, flags...)
		out, err := strikesOn(t, queue, append(args, "--amqp-url", broker, "--", "cat")...).CombinedOutput()
		return string(out), err
	}
	if out, err := consume(); err != nil || strings.Contains(out, "bound") || strings.Contains(out, "management") {
		t.Errorf("found: %v: %s", err, out)
	}
	if out, err := consume("--management-url", "http://127.0.0.1:1"); err != nil || !strings.Contains(out,
		"the bindings of the dead-letter exchange") {
		t.Errorf("a given one that does not answer: %v: %s", err, out)
	}
	manage(t, api, "POST", "bindings/%2F/e/"+queue+".dlx/q/"+queue, `{"routing_key":""}`)
	out, err := consume()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != cli.ExitMisuse || !strings.Contains(out, "dead-letter-loop") {
		t.Errorf("a route that leads back: %v: %s", err, out)
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

// A misspelt queue is told from a missing one where the management API lists the names.
func TestMisspeltQueue(t *testing.T) {
	t.Parallel()
	queue, api := "cli."+uuid.NewString(), managementURL(t)
	servertest.DeleteLater(t, queue)
	mustOutput(t, strikesOn(t, queue, "declare", queue))
	misspelt := queue[:len(queue)-1]
	for _, args := range [][]string{
		{"status", misspelt}, {"consume", misspelt, "--", "true"}, {"dead", "list", misspelt}, {"doctor", misspelt},
		{"limit", "set", misspelt, "--max-retries", "2", "--why", "r"},
	} {
		cmd := strikesOn(t, queue, args...)
		cmd.Env = append(cmd.Environ(), "STRIKES_MANAGEMENT_URL="+api)
		out, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != cli.ExitMisuse || !strings.Contains(string(out),
			"did you mean \""+queue+"\"") ||
			!strings.Contains(string(out), "strikes declare "+misspelt) {
			t.Errorf("%q: %v: %s", args, err, out)
		}
	}
}
