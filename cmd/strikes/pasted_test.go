//go:build unix

package main

import (
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
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

// doctorSays runs the doctor on queues.
func doctorSays(t *testing.T, api string, queues ...string) string {
	t.Helper()
	code, out, errs := called(t, append([]string{"doctor", "--amqp-url", brokerURL(t), "--store-url", storeURL(t),
		"--management-url", api, "--"}, queues...)...)
	if code != cli.ExitFound {
		t.Fatalf("exit code %d: %s%s", code, out, errs)
	}
	return out
}

// TestPastedCommands declares queues with odd names that have no dead-letter exchange and a low delivery limit, and
// gives the commands that the doctor prints of them to a shell: they hit the queue, the whole queue and nothing but the
// queue.
func TestPastedCommands(t *testing.T) {
	servertest.Long(t)
	api := managementURL(t)
	withChannel(t, func(ch *amqp.Channel) error {
		for _, name := range oddNames {
			if _, err := ch.QueueDeclare(name, true, false, false, false, amqp.Table{"x-queue-type": "quorum",
				"x-delivery-limit": int32(5)}); err != nil {
				return err
			}
		}
		return nil
	})
	servertest.DeleteLater(t, oddNames...)
	proctest.Eventually(t, time.Minute, "the API knows the queues' policies", func() bool {
		return !strings.Contains(doctorSays(t, api, oddNames...), "dead-letter-unproven")
	})
	for _, name := range oddNames {
		t.Run(name, func(t *testing.T) {
			text := doctorSays(t, api, name)
			lines := regexp.MustCompile(`(?m)^ +(curl .*)$`).FindAllStringSubmatch(text, -1)
			if len(lines) == 0 {
				t.Fatalf("no command to run: %s", text)
			}
			for _, line := range lines {
				sh := exec.CommandContext(t.Context(), "sh", "-c", line[1])
				sh.Env = append(os.Environ(), "RABBITMQ_PASSWORD=guest")
				if code, out := ended(t, sh); code != 0 {
					t.Errorf("%s: %s", line[1], out)
				}
			}
			defer servertest.Administer(t, http.MethodDelete, api+"/api/policies/%2F/"+url.PathEscape("strikes."+name), "")
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

// noBroker is the URL of no broker: a test that uses it does not depend on one that the environment names.
const noBroker = "amqp://127.0.0.1:1/"

// TestNamesStayAsTheyAre: a typed name comes back as it was typed.
func TestNamesStayAsTheyAre(t *testing.T) {
	t.Parallel()
	store := storeURL(t)
	for _, name := range oddNames {
		code, _, errs := called(t, "counter", "list", "--store-url", store, "--amqp-url", noBroker, "--", name)
		if code != cli.ExitNothing || !strings.Contains(errs, strconv.Quote(name)) {
			t.Errorf("%q: exit code %d, %s", name, code, errs)
		}
	}
	code, _, errs := called(t, "publish", "q", "Backoff")
	if code != cli.ExitMisuse || errs != "strikes: stat Backoff: no such file or directory\n" {
		t.Errorf("a file: exit code %d, %s", code, errs)
	}
	if err := broker.CheckName("a\nb"); err == nil {
		t.Error("a line break in a name, which RabbitMQ takes out, is not refused")
	}
}
