package main

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

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
	}}}
}

func TestMetrics(t *testing.T) {
	for name, tc := range map[string]struct {
		from source
		want string // of the metrics that it names
	}{
		"all": {fixed{overview(), nil}, `
# HELP strikes_broker_up Whether the broker and its management API replied to every question.
# TYPE strikes_broker_up gauge
strikes_broker_up 1
# HELP strikes_dead_lettered_total Messages that consumers dead-lettered.
# TYPE strikes_dead_lettered_total counter
strikes_dead_lettered_total{queue="orders",vhost="/"} 7
strikes_dead_lettered_total{queue="shared",vhost="/"} 0
# HELP strikes_dead_letters Dead letters that were neither replayed nor dropped.
# TYPE strikes_dead_letters gauge
strikes_dead_letters{queue="orders",vhost="/"} 5
strikes_dead_letters{queue="shared",vhost="/"} 0
# HELP strikes_blocked_dead_letters Dead letters of blocked lanes that had no attempt.
# TYPE strikes_blocked_dead_letters gauge
strikes_blocked_dead_letters{queue="orders",vhost="/"} 8
strikes_blocked_dead_letters{queue="shared",vhost="/"} 0
# HELP strikes_dead_letters_unaccounted Dead letters that are neither in the dead-letter queue nor known to have left it.
# TYPE strikes_dead_letters_unaccounted gauge
strikes_dead_letters_unaccounted{queue="orders",vhost="/"} 4
# HELP strikes_head_blocked_seconds How long the longest-blocking message has blocked; 0 if none does.
# TYPE strikes_head_blocked_seconds gauge
strikes_head_blocked_seconds{queue="orders",vhost="/"} 90
strikes_head_blocked_seconds{queue="shared",vhost="/"} 0
# HELP strikes_blocked_lanes Blocked lanes of the queue, or of a partition of it.
# TYPE strikes_blocked_lanes gauge
strikes_blocked_lanes{partition="",queue="orders",vhost="/"} 6
strikes_blocked_lanes{partition="shared.0",queue="shared",vhost="/"} 0
strikes_blocked_lanes{partition="shared.1",queue="shared",vhost="/"} 2
# HELP strikes_waiting_messages Messages that consumers hold because the attempts at them are not counted.
# TYPE strikes_waiting_messages gauge
strikes_waiting_messages{queue="orders",vhost="/"} 6
strikes_waiting_messages{queue="shared",vhost="/"} 0
# HELP strikes_queue_consumers Consumers of the queue, or of a partition of it.
# TYPE strikes_queue_consumers gauge
strikes_queue_consumers{partition="",queue="orders",vhost="/"} 2
strikes_queue_consumers{partition="shared.0",queue="shared",vhost="/"} 1
strikes_queue_consumers{partition="shared.1",queue="shared",vhost="/"} 0
# HELP strikes_queue_paused Whether an operator paused the queue.
# TYPE strikes_queue_paused gauge
strikes_queue_paused{queue="orders",vhost="/"} 1
strikes_queue_paused{queue="shared",vhost="/"} 0
# HELP strikes_retrying_messages Messages that failed or run again, and are not dead-lettered.
# TYPE strikes_retrying_messages gauge
strikes_retrying_messages{queue="orders",vhost="/"} 2
strikes_retrying_messages{queue="shared",vhost="/"} 0
# HELP strikes_store_up Whether the store replied to every question.
# TYPE strikes_store_up gauge
strikes_store_up 1
`},
		"hanging": {fixed{overview(), context.DeadlineExceeded}, `
# HELP strikes_broker_up Whether the broker and its management API replied to every question.
# TYPE strikes_broker_up gauge
strikes_broker_up 0
# HELP strikes_store_up Whether the store replied to every question.
# TYPE strikes_store_up gauge
strikes_store_up 0
`},
	} {
		t.Run(name, func(t *testing.T) {
			names := []string{
				"strikes_broker_up", "strikes_store_up", "strikes_retrying_messages", "strikes_head_blocked_seconds",
				"strikes_dead_letters",
				"strikes_dead_lettered_total", "strikes_dead_letters_unaccounted", "strikes_blocked_dead_letters",
				"strikes_blocked_lanes", "strikes_queue_paused", "strikes_queue_consumers",
				"strikes_waiting_messages",
			}
			if err := testutil.CollectAndCompare(exporter{tc.from}, strings.NewReader(tc.want), names...); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestNames: the linter of Prometheus finds no fault with the names and help texts.
func TestNames(t *testing.T) {
	problems, err := testutil.CollectAndLint(exporter{fixed{overview(), nil}})
	need(t, err)
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// TestStoreDown: the store's figures are absent without it, and the broker's are there.
func TestStoreDown(t *testing.T) {
	o := overview()
	o.Store, o.Queues[0].StoreSeen, o.Queues = errors.New("down"), false, o.Queues[:1]
	w := httptest.NewRecorder()
	metricsOf(fixed{o, nil}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	body := w.Body.String()
	if !strings.Contains(body, "strikes_store_up 0") || strings.Contains(body, "strikes_dead_letters{") ||
		!strings.Contains(body, "strikes_queue_consumers{") {
		t.Error(body)
	}
}

// TestHostileNames: a queue whose name is no UTF-8 does not spoil the rest.
func TestHostileNames(t *testing.T) {
	o := overview()
	o.Queues[0].Queue = "a\xff\"\n<script>"
	w := httptest.NewRecorder()
	metricsOf(fixed{o, nil}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if w.Code != 200 || !strings.Contains(w.Body.String(), `queue="a�\"\n<script>"`) {
		t.Error(w.Code, w.Body)
	}
}
