package main

import (
	"context"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/internal/proctest"
)

// exported runs strikes export, and returns its stderr and a function that scrapes it.
func exported(t *testing.T, args ...string) (scrape func() string, stderr *output) {
	t.Helper()
	stderr = new(output)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, cli.Streams{Out: io.Discard, Err: stderr}, append([]string{"strikes", "export", "--listen",
			"127.0.0.1:0"}, args...))
	}()
	t.Cleanup(func() {
		stop()
		if code := <-ended; code != cli.ExitOK {
			t.Errorf("exit code %d\n%s", code, stderr)
		}
	})
	address := regexp.MustCompile(`http://\S+`)
	proctest.Eventually(t, time.Minute, "the address", func() bool { return address.MatchString(stderr.String()) })
	return func() string { return scraped(t, address.FindString(stderr.String())) }, stderr
}

// scraped returns the metrics at an address.
func scraped(t *testing.T, address string) string {
	t.Helper()
	res, err := http.Get(address)
	need(t, err)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("%s, %v: %s", res.Status, err, body)
	}
	return string(body)
}

// TestExport: the metrics are those of the queue, and the store's are there for queues that are named without a
// management API.
func TestExport(t *testing.T) {
	t.Parallel()
	queue := declaredQueue(t)
	buryFew(t, queue)
	scrape, _ := exported(t, append(serverFlags(t, queue), "--queue", queue)...)
	proctest.Eventually(t, time.Minute, "the metrics", func() bool {
		page := scrape()
		for _, want := range []string{
			"strikes_broker_up 1", "strikes_store_up 1",
			`strikes_dead_letters{queue="` + queue + `",vhost="/"} 2`,
			`strikes_retrying_messages{queue="` + queue + `",vhost="/"} 1`,
			`strikes_dead_letters_unaccounted{queue="` + queue + `",vhost="/"} 0`,
			`strikes_queue_consumers{partition="",queue="` + queue + `",vhost="/"} 0`,
		} {
			if !strings.Contains(page, want) {
				return false
			}
		}
		return true
	})
}

// TestExportOfAMisspeltQueue warns, and serves no figures: an alert on their zeros would never fire.
func TestExportOfAMisspeltQueue(t *testing.T) {
	t.Parallel()
	queue := newQueue(t)
	scrape, stderr := exported(t, append(serverFlags(t, queue), "--queue", queue)...)
	proctest.Eventually(t, time.Minute, "a warning", func() bool {
		return strings.Contains(stderr.String(), `warning: there is no queue "`+queue)
	})
	if page := scrape(); !strings.Contains(page, "strikes_broker_up 1") || strings.Contains(page, queue) {
		t.Error(page)
	}
}

// TestExportOutlivesOutages: without broker and store, export serves that they are down.
func TestExportOutlivesOutages(t *testing.T) {
	t.Parallel()
	scrape, _ := exported(t, "--amqp-url", "amqp://127.0.0.1:1", "--store-url", "redis://127.0.0.1:1")
	if page := scrape(); !strings.Contains(page, "strikes_broker_up 0") || !strings.Contains(page, "strikes_store_up 0") {
		t.Error(page)
	}
}

// TestExportRefuses: an address that cannot be used is misuse.
func TestExportRefuses(t *testing.T) {
	t.Parallel()
	code, _, errs := called(t, "export", "--listen", "nowhere")
	if code != cli.ExitMisuse || !strings.Contains(errs, "--listen: listen tcp: address nowhere") {
		t.Errorf("exit code %d: %s", code, errs)
	}
}
