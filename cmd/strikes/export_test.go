package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/proctest"
	"github.com/strikesmq/strikes/ops"
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
	scrape, stderr := exported(t, append(serverFlags(t, queue), "--queue", queue)...)
	if page := scraped(t, regexp.MustCompile(`http://[^/]+/`).FindString(stderr.String())); !strings.Contains(page,
		"strikes_broker_up 1") {
		t.Errorf("/ leads to %s", page)
	}
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

// fixed is a source that always says the same.
type fixed struct {
	ops.Overview
	err error
}

func (f fixed) All(context.Context) (ops.Overview, error) { return f.Overview, f.err }
func (fixed) Close()                                      {}

func overview() ops.Overview {
	holds, consumers := 1, 2
	return ops.Overview{Time: time.Unix(1700000000, 0), VHost: "/", Queues: []ops.Status{{
		VHost: "/", Queue: "orders", StoreSeen: true, Blocked: 90 * time.Second, Retrying: 3, Forgotten: 1,
		Consumers: &consumers, Waiting: []ops.WaitingMessages{{Messages: 6}},
		BlockedLanes: 6, Dead: ops.DeadLetters{Count: 7, Still: 5, Missing: 4, Blocked: 8, Holds: &holds},
		Paused: &counter.Note{Why: "a bug"},
	}, {
		VHost: "/", Queue: "shared", Ready: new(3), Consumers: new(1), BlockedLanes: 2, StoreSeen: true,
		Partitions: []ops.Partition{{Queue: "shared.0", Ready: 3, Consumers: 1}, {Queue: "shared.1", BlockedLanes: 2}},
	}, {VHost: "/", Queue: "misspelt", StoreSeen: true, Absent: true}}}
}

// page returns the metrics of a source, as a scrape gets them.
func page(from source) string {
	w := httptest.NewRecorder()
	(&exporter{from: from}).handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	return w.Body.String()
}

func TestMetrics(t *testing.T) {
	all, err := os.ReadFile("testdata/metrics.txt")
	need(t, err)
	for name, tt := range map[string]struct {
		from source
		want string // all figures, without help
	}{
		"all":     {fixed{overview(), nil}, string(all)},
		"hanging": {fixed{overview(), context.DeadlineExceeded}, "strikes_broker_up 0\nstrikes_store_up 0\n"},
	} {
		got := regexp.MustCompile(`(?m)^#.*\n`).ReplaceAllString(page(tt.from), "")
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestNames: the linter of Prometheus finds no fault with the names and help texts.
func TestNames(t *testing.T) {
	problems, err := testutil.CollectAndLint(&exporter{from: fixed{overview(), nil}})
	need(t, err)
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// TestMetricsOfPart: without the store its figures are absent, and the broker's are there. A queue whose name is no
// UTF-8 does not spoil the rest.
func TestMetricsOfPart(t *testing.T) {
	o := overview()
	o.Store, o.Queues[0].StoreSeen, o.Queues = errors.New("down"), false, o.Queues[:1]
	o.Queues[0].Queue = "a\xff\"\n<script>"
	body := page(fixed{o, nil})
	if !strings.Contains(body, "strikes_store_up 0") || strings.Contains(body, "strikes_dead_letters{") ||
		!strings.Contains(body, `strikes_queue_consumers{partition="",queue="a�\"\n<script>"`) {
		t.Error(body)
	}
}

// TestExporterSaysWhatIsDown once, and that it is up again.
func TestExporterSaysWhatIsDown(t *testing.T) {
	var log strings.Builder
	c := &exporter{log: &log}
	for _, err := range []error{nil, errors.New("not authorised"), errors.New("not authorised"), nil, nil} {
		c.at, c.from = time.Time{}, fixed{ops.Overview{Broker: err}, nil}
		if _, err := c.figures(); err != nil {
			t.Error(err)
		}
	}
	c.at, c.from = time.Time{}, fixed{ops.Overview{Queues: []ops.Status{{Queue: "q", Unknown: "foreign"}}}, nil}
	if _, err := c.figures(); err != nil {
		t.Error(err)
	}
	want := "strikes: warning: strikes_broker_up is 0: not authorised\nstrikes: the broker is up again\n" +
		"strikes: warning: strikes_store_up is 0: queue \"q\": foreign\n"
	if log.String() != want {
		t.Errorf("got %q, want %q", log.String(), want)
	}
}

// TestMetricsOfForeignKey: another program's key hides the figures of a queue, so no alert about the queue can fire.
// strikes_store_up is 0, so StrikesStoreDown fires.
func TestMetricsOfForeignKey(t *testing.T) {
	o := overview()
	o.Queues[0].StoreSeen, o.Queues[0].Unknown = false, counter.ErrForeign.Error()
	if body := page(fixed{o, nil}); !strings.Contains(body, "strikes_store_up 0") ||
		!strings.Contains(body, `strikes_dead_letters{queue="shared"`) {
		t.Error(body)
	}
}

// refusing is a source that fails.
type refusing struct{ asked int }

func (r *refusing) All(context.Context) (ops.Overview, error) {
	r.asked++
	return ops.Overview{}, context.DeadlineExceeded
}

func (*refusing) Close() {}

// TestScrapesShareAnError: scrapes that waited while broker and store hung do not ask one after the other.
func TestScrapesShareAnError(t *testing.T) {
	source := &refusing{}
	metrics := &exporter{from: source}
	for range 3 {
		if _, err := metrics.figures(); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
	}
	if source.asked != 1 {
		t.Errorf("asked %d times, want once", source.asked)
	}
}

// registered are the names of the exporter's metrics, and of those that plugin/promstrikes registers.
func registered(t *testing.T) []string {
	t.Helper()
	all := make(chan *prometheus.Desc, 100)
	(&exporter{}).Describe(all)
	close(all)
	var names []string
	for d := range all {
		names = append(names, regexp.MustCompile(`fqName: "(\w+)"`).FindStringSubmatch(d.String())[1])
	}
	for _, m := range regexp.MustCompile(`Name: "(strikes_\w+)"`).FindAllStringSubmatch(read(t,
		"plugin/promstrikes/promstrikes.go"), -1) {
		names = append(names, m[1])
	}
	return names
}

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile("../../" + name)
	need(t, err)
	return string(b)
}

// TestEveryMetricExists: the dashboard and the alert rules ask for nothing that no exporter has, and docs/telemetry.md
// has all.
func TestEveryMetricExists(t *testing.T) {
	names := registered(t)
	for _, file := range []string{"deploy/grafana/strikes.json", "deploy/prometheus/strikes.rules.yml",
		"docs/telemetry.md"} {
		used := regexp.MustCompile(`\bstrikes_\w+`).FindAllString(read(t, file), -1)
		if len(used) == 0 {
			t.Errorf("%s uses no metric", file)
		}
		for _, name := range used {
			if !slices.Contains(names, strings.TrimSuffix(name, "_bucket")) {
				t.Errorf("%s uses %s, which is not registered", file, name)
			}
		}
	}
	for _, name := range names {
		if !strings.Contains(read(t, "docs/telemetry.md"), "`"+name+"`") {
			t.Errorf("docs/telemetry.md lacks %s", name)
		}
	}
}

func TestHealth(t *testing.T) {
	var h health
	for _, tc := range []struct {
		consuming bool
		path      string
		want      int
	}{
		{false, "/live", http.StatusOK}, {false, "/ready", http.StatusServiceUnavailable}, {true, "/ready", http.StatusOK},
		{true, "/live", http.StatusOK}, {false, "/ready", http.StatusServiceUnavailable}, {true, "/", http.StatusNotFound},
	} {
		h.consuming.Store(tc.consuming)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, tc.path, nil))
		if w.Code != tc.want {
			t.Errorf("%s, consuming %v: %d, want %d", tc.path, tc.consuming, w.Code, tc.want)
		}
	}
}

func TestHealthAddress(t *testing.T) {
	var h health
	if _, err := h.serve(t.Context(), "nowhere", io.Discard); cli.ExitCode(err) != cli.ExitMisuse {
		t.Errorf("got %v", err)
	}
	taken := httptest.NewServer(&h)
	defer taken.Close()
	_, err := h.serve(t.Context(), taken.Listener.Addr().String(), io.Discard)
	if cli.ExitCode(err) != cli.ExitMisuse || !strings.HasSuffix(err.Error(), "; stop the program that listens there, or "+
		"give another port") {
		t.Errorf("got %v", err)
	}
	stop, err := h.serve(t.Context(), "127.0.0.1:0", io.Discard)
	need(t, err)
	stop()
}
