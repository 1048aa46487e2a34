//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/connect"
	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/internal/proctest"
	"github.com/strikesmq/strikes/internal/servertest"
)

// oddNames are names of queues that a shell, a URL, a terminal or a search for the names of flags would take for
// something else.
var oddNames = []string{
	"billing.Prefetch", "Backoff", "jo@shop", "amqp://jo:hush@shop/x", "it's", `say "no" \`, "a b", "$HOME $(id) `id`",
	"-q", "--force",
	"café/日本", "100%+a;b&&c|d*?[e]{f}", "tab\tand \x1b[2J and \u200b",
}

// recorder makes programs that only write down their arguments. It returns a shell with them, and a function that
// reads the arguments of each call.
func recorder(t *testing.T, programs ...string) (sh func(line string), calls func() [][]string) {
	t.Helper()
	dir := t.TempDir()
	record := filepath.Join(dir, "record")
	for _, p := range programs {
		script := "#!/bin/sh\nprintf '%s\\000' \"$0\" \"$@\" >>'" + record + "'\nprintf '\\001' >>'" + record + "'\n"
		need(t, os.WriteFile(filepath.Join(dir, p), []byte(script), 0o700))
	}
	sh = func(line string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "sh", "-c", line)
		cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s", line, err, out)
		}
	}
	calls = func() (all [][]string) {
		t.Helper()
		text, err := os.ReadFile(record)
		need(t, err)
		for call := range bytes.SplitSeq(bytes.TrimSuffix(text, []byte{1}), []byte{1}) {
			args := strings.Split(strings.TrimSuffix(string(call), "\x00"), "\x00")
			all = append(all, args[1:])
		}
		return all
	}
	return sh, calls
}

// request sends the request of a curl command.
func request(t *testing.T, api string, curl []string) {
	t.Helper()
	after := func(flag string) string { return curl[slices.Index(curl, flag)+1] }
	req, err := http.NewRequestWithContext(t.Context(), after("-X"), curl[len(curl)-1], strings.NewReader(after("-d")))
	need(t, err)
	if at, err := url.Parse(api); err == nil {
		req.URL.User = at.User
	}
	res, err := http.DefaultClient.Do(req)
	need(t, err)
	defer res.Body.Close()
	if body, _ := io.ReadAll(res.Body); res.StatusCode >= 300 {
		t.Errorf("%q: %s: %s", curl, res.Status, body)
	}
}

// doctorSays runs the doctor on queues.
func doctorSays(t *testing.T, api string, queues ...string) string {
	t.Helper()
	var out output
	args := append([]string{"strikes", "doctor", "--amqp-url", brokerURL(t), "--store-url", storeURL(t),
		"--management-url", api, "--"}, queues...)
	if code := run(t.Context(), cli.Streams{In: strings.NewReader(""), Out: &out, Err: &out},
		args); code != cli.ExitFound {
		t.Fatalf("exit code %d: %s", code, &out)
	}
	return out.String()
}

// TestPastedCommands declares queues with odd names that have no dead-letter exchange and a low delivery limit, and
// gives the commands that the doctor prints of them to a shell: they hit the queue, the whole queue and nothing but the
// queue.
func TestPastedCommands(t *testing.T) {
	servertest.Long(t)
	api := managementURL(t)
	b, err := connect.NewBroker(brokerURL(t), "test")
	need(t, err)
	err = b.With(t.Context(), func(conn *amqp.Connection) error {
		ch, err := conn.Channel()
		if err != nil {
			return err
		}
		defer ch.Close()
		for _, name := range oddNames {
			if _, err := ch.QueueDeclare(name, true, false, false, false, amqp.Table{"x-queue-type": "quorum",
				"x-delivery-limit": int32(5)}); err != nil {
				return err
			}
		}
		return nil
	})
	need(t, err)
	servertest.DeleteLater(t, oddNames...)
	t.Cleanup(func() {
		for _, name := range oddNames {
			removePolicy(t, api, name)
		}
	})
	proctest.Eventually(t, time.Minute, "the API knows the queues' policies", func() bool {
		return !strings.Contains(doctorSays(t, api, oddNames...), "dead-letter-unproven")
	})
	for _, name := range oddNames {
		t.Run(name, func(t *testing.T) {
			text := doctorSays(t, api, name)
			sh, calls := recorder(t, "curl")
			lines := regexp.MustCompile(`(?m)^ +(curl .*)$`).FindAllStringSubmatch(text, -1)
			if len(lines) == 0 {
				t.Fatalf("no command to run: %s", text)
			}
			t.Setenv("RABBITMQ_PASSWORD", "guest")
			for _, line := range lines {
				sh(line[1])
			}
			for _, c := range calls() {
				request(t, api, c)
			}
			if !exists(t, name+".dlq") {
				t.Error("its dead-letter queue is not there")
			}
			if got := patternOf(t, api, name); got != "^"+regexp.QuoteMeta(name)+"$" {
				t.Errorf("its policy is for %q", got)
			}
		})
	}
}

// patternOf reads the pattern of the policy that was made for a queue.
func patternOf(t *testing.T, api, queue string) string {
	t.Helper()
	var policies []struct{ Name, Pattern string }
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, api+"/api/policies/%2F", nil)
	need(t, err)
	res, err := http.DefaultClient.Do(req)
	need(t, err)
	defer res.Body.Close()
	need(t, json.NewDecoder(res.Body).Decode(&policies))
	for _, p := range policies {
		if p.Name == "strikes."+queue {
			return p.Pattern
		}
	}
	t.Errorf("no policy for it among %+v", policies)
	return ""
}

// removePolicy removes the policy that a test made for a queue.
func removePolicy(t *testing.T, api, queue string) {
	t.Helper()
	req, err := http.NewRequestWithContext(context.Background(), http.MethodDelete, api+"/api/policies/%2F/"+
		url.PathEscape("strikes."+queue), nil)
	need(t, err)
	if res, err := http.DefaultClient.Do(req); err == nil {
		_ = res.Body.Close()
	}
}

// noBroker is the URL of no broker: a test that uses it does not depend on one that the environment names.
const noBroker = "amqp://127.0.0.1:1/"

// TestNamesStayAsTheyAre: a typed name comes back as it was typed.
func TestNamesStayAsTheyAre(t *testing.T) {
	t.Parallel()
	store := storeURL(t)
	for _, name := range oddNames {
		var out output
		code := run(t.Context(), cli.Streams{In: strings.NewReader(""), Out: &out, Err: &out},
			[]string{"strikes", "limit", "get", "--store-url", store, "--amqp-url", noBroker, "--vhost", "/", "--", name})
		if code != cli.ExitNothing || !strings.Contains(out.String(), strconv.Quote(name)) {
			t.Errorf("%q: exit code %d, %s", name, code, &out)
		}
	}
	var out output
	code := run(t.Context(), cli.Streams{In: strings.NewReader(""), Out: &out, Err: &out}, []string{"strikes", "publish",
		"q", "Backoff"})
	if code != cli.ExitMisuse || out.String() != "strikes: stat Backoff: no such file or directory\n" {
		t.Errorf("a file: exit code %d, %s", code, &out)
	}
	if err := broker.CheckName("a\nb"); err == nil {
		t.Error("a line break in a name, which RabbitMQ takes out, is not refused")
	}
}
