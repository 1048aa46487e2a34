package main

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/ops"
)

// fixed is a source that always says the same.
type fixed struct {
	ops.Overview
	err error
}

func (f fixed) All(context.Context) (ops.Overview, error) { return f.Overview, f.err }
func (fixed) Close()                                      {}

func overview() ops.Overview {
	holds, consumers := 1, 2
	return ops.Overview{Time: time.Unix(1700000000, 0), VHost: "/", Queues: []ops.Summary{{
		VHost: "/", Queue: "orders", StoreSeen: true, Blocked: 90 * time.Second, Retrying: 3, Forgotten: 1,
		Consumers: &consumers, Waiting: &ops.WaitingMessages{Messages: 6},
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
	for name, tt := range map[string]struct {
		from source
		want string // all figures, without help
	}{
		"all": {fixed{overview(), nil}, `
strikes_blocked_dead_letters{queue="orders",vhost="/"} 8
strikes_blocked_dead_letters{queue="shared",vhost="/"} 0
strikes_blocked_lanes{partition="",queue="orders",vhost="/"} 6
strikes_blocked_lanes{partition="shared.0",queue="shared",vhost="/"} 0
strikes_blocked_lanes{partition="shared.1",queue="shared",vhost="/"} 2
strikes_broker_up 1
strikes_dead_lettered_total{queue="orders",vhost="/"} 7
strikes_dead_lettered_total{queue="shared",vhost="/"} 0
strikes_dead_letters{queue="orders",vhost="/"} 5
strikes_dead_letters{queue="shared",vhost="/"} 0
strikes_dead_letters_unaccounted{queue="orders",vhost="/"} 4
strikes_forgotten_messages{queue="orders",vhost="/"} 1
strikes_forgotten_messages{queue="shared",vhost="/"} 0
strikes_head_blocked_seconds{queue="orders",vhost="/"} 90
strikes_head_blocked_seconds{queue="shared",vhost="/"} 0
strikes_open_seconds{queue="orders",vhost="/"} 0
strikes_open_seconds{queue="shared",vhost="/"} 0
strikes_queue_consumers{partition="",queue="orders",vhost="/"} 2
strikes_queue_consumers{partition="shared.0",queue="shared",vhost="/"} 1
strikes_queue_consumers{partition="shared.1",queue="shared",vhost="/"} 0
strikes_queue_paused{queue="orders",vhost="/"} 1
strikes_queue_paused{queue="shared",vhost="/"} 0
strikes_queue_ready_messages{partition="shared.0",queue="shared",vhost="/"} 3
strikes_queue_ready_messages{partition="shared.1",queue="shared",vhost="/"} 0
strikes_retrying_messages{queue="orders",vhost="/"} 2
strikes_retrying_messages{queue="shared",vhost="/"} 0
strikes_seen_timestamp_seconds 1.7e+09
strikes_store_up 1
strikes_waiting_messages{queue="orders",vhost="/"} 6
strikes_waiting_messages{queue="shared",vhost="/"} 0
`},
		"hanging": {fixed{overview(), context.DeadlineExceeded}, "\nstrikes_broker_up 0\nstrikes_store_up 0\n"},
	} {
		got := regexp.MustCompile(`(?m)^#.*\n`).ReplaceAllString(page(tt.from), "")
		if diff := cmp.Diff(strings.TrimPrefix(tt.want, "\n"), got); diff != "" {
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

// TestStoreDown: the store's figures are absent without it, and the broker's are there.
func TestStoreDown(t *testing.T) {
	o := overview()
	o.Store, o.Queues[0].StoreSeen, o.Queues = errors.New("down"), false, o.Queues[:1]
	body := page(fixed{o, nil})
	if !strings.Contains(body, "strikes_store_up 0") || strings.Contains(body, "strikes_dead_letters{") ||
		!strings.Contains(body, "strikes_queue_consumers{") {
		t.Error(body)
	}
}

// TestHostileNames: a queue whose name is no UTF-8 does not spoil the rest.
func TestHostileNames(t *testing.T) {
	o := overview()
	o.Queues[0].Queue = "a\xff\"\n<script>"
	if body := page(fixed{o, nil}); !strings.Contains(body, `queue="a�\"\n<script>"`) {
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
