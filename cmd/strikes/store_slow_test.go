package main

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/internal/proxy"
)

// TestSlowStore: an operator's command waits for a store that is too slow for a consumer, unless the URL says for how
// long.
func TestSlowStore(t *testing.T) {
	t.Parallel()
	queue := declaredQueue(t)
	failOnce(t, storeURL(t), queue, "m1")
	at, err := url.Parse(storeURL(t))
	need(t, err)
	p, err := proxy.NewStore(t.Context(), at.Host, func([]string) proxy.Treatment {
		return proxy.Treatment{Late: 400 * time.Millisecond}
	})
	need(t, err)
	t.Cleanup(p.Close)
	at.Host = p.Addr()
	for command, code := range map[string]int{
		"counter get QUEUE m1": 0, "status QUEUE": 0, "dead list QUEUE": cli.ExitNothing,
		"limit set --why why --max-retries 4 QUEUE": 0,
		"pause --why why --wait 0s QUEUE":           0, "doctor QUEUE": 0, "lane list QUEUE": cli.ExitNothing,
		"consume --exit-when-idle 1s QUEUE -- true": cli.ExitUnreachable,
	} {
		// One after the other: to a command that gets no processor, the store seems slower still.
		t.Run(command, func(t *testing.T) {
			args := strings.Fields(strings.ReplaceAll(command, "QUEUE", queue))
			if got, out := ended(t, with(strikesOn(t, queue, args...), "REDIS_URL="+at.String())); got != code {
				t.Errorf("exit code %d, want %d\n%s", got, code, out)
			}
		})
	}
	t.Run("a timeout in the URL", func(t *testing.T) {
		t.Parallel()
		brief := with(strikesOn(t, queue, "counter", "get", queue, "m1"), "REDIS_URL="+at.String()+"?read_timeout=250ms")
		if got, out := ended(t, brief); got != cli.ExitUnreachable || !strings.Contains(out, "slow") {
			t.Errorf("exit code %d\n%s", got, out)
		}
	})
}
