// Package metrics serves what only the store knows of queues to Prometheus, for consumers in any language.
package metrics

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/strikesmq/strikes/internal/status"
)

// patience is how long a scrape waits for broker and store: Prometheus gives up after 10 s by default.
const patience = 8 * time.Second

// Source is where the figures come from: a *status.Cache.
type Source interface {
	All(ctx context.Context) (status.Overview, error)
}

// Handler serves the metrics of all queues of a source.
func Handler(from Source) http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collector{from})
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
}

// collector describes and collects the metrics.
type collector struct{ from Source }

var (
	brokerUp = prometheus.NewDesc("strikes_broker_up",
		"Whether the broker and its management API replied to every question.", nil, nil)
	storeUp = prometheus.NewDesc("strikes_store_up", "Whether the store replied to every question.", nil, nil)
	seen    = prometheus.NewDesc("strikes_seen_timestamp_seconds", "When the figures were read, by the store's clock.",
		nil, nil)
)

// measure is a figure of one queue.
type measure struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	of   func(status.Summary) (value float64, known bool)
}

func measured(name, help string, kind prometheus.ValueType, of func(status.Summary) (float64, bool)) measure {
	return measure{prometheus.NewDesc(name, help, []string{"vhost", "queue"}, nil), kind, of}
}

// measures are the figures of each queue. One that is not known is absent.
var measures = []measure{
	measured("strikes_retrying_messages", "Messages that failed or run again, and are not dead-lettered.",
		prometheus.GaugeValue,
		fromStore(func(s status.Summary) float64 { return float64(s.Retrying - s.Forgotten) })),
	measured("strikes_forgotten_messages", "Messages whose next attempt has been due for over 5 minutes.",
		prometheus.GaugeValue,
		fromStore(func(s status.Summary) float64 { return float64(s.Forgotten) })),
	measured("strikes_waiting_messages", "Messages that consumers hold because the attempts at them are not counted.",
		prometheus.GaugeValue,
		fromStore(func(s status.Summary) float64 { return float64(heldBy(s)) })),
	measured("strikes_head_blocked_seconds", "How long the longest-blocking message has blocked; 0 if none does.",
		prometheus.GaugeValue,
		fromStore(func(s status.Summary) float64 { return s.Blocked.Seconds() })),
	measured("strikes_dead_letters", "Dead letters that were neither replayed nor dropped.", prometheus.GaugeValue,
		fromStore(func(s status.Summary) float64 { return float64(s.Dead.Still) })),
	measured("strikes_dead_lettered_total", "Messages that consumers dead-lettered.", prometheus.CounterValue,
		fromStore(func(s status.Summary) float64 { return float64(s.Dead.Count) })),
	measured("strikes_dead_letters_unaccounted", "Dead letters that are neither in the dead-letter queue nor known to "+
		"have left it.", prometheus.GaugeValue,
		func(s status.Summary) (float64, bool) {
			return float64(s.Dead.Missing), s.StoreSeen && s.Dead.Holds != nil
		}),
	measured("strikes_blocked_lanes", "Blocked lanes of the queue.", prometheus.GaugeValue,
		fromStore(func(s status.Summary) float64 { return float64(s.BlockedLanes) })),
	measured("strikes_blocked_dead_letters", "Dead letters of blocked lanes that had no attempt.",
		prometheus.GaugeValue,
		fromStore(func(s status.Summary) float64 { return float64(s.Dead.Blocked) })),
	measured("strikes_queue_paused", "Whether an operator paused the queue.", prometheus.GaugeValue,
		fromStore(func(s status.Summary) float64 { return oneIf(s.Paused != nil) })),
	measured("strikes_queue_consumers", "Consumers of the queue.", prometheus.GaugeValue,
		func(s status.Summary) (float64, bool) { return number(s.Consumers) }),
	measured("strikes_queue_ready_messages", "Messages in the queue that no consumer holds.", prometheus.GaugeValue,
		func(s status.Summary) (float64, bool) { return number(s.Ready) }),
}

func fromStore(of func(status.Summary) float64) func(status.Summary) (float64, bool) {
	return func(s status.Summary) (float64, bool) { return of(s), s.StoreSeen }
}

func heldBy(s status.Summary) int {
	if s.Waiting == nil {
		return 0
	}
	return s.Waiting.Messages
}

func number(n *int) (float64, bool) {
	if n == nil {
		return 0, false
	}
	return float64(*n), true
}

func oneIf(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

func (c collector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{brokerUp, storeUp, seen} {
		to <- d
	}
	for _, m := range measures {
		to <- m.desc
	}
}

// Collect reports what does not answer as down, and keeps the last figures of neither.
func (c collector) Collect(to chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	o, err := c.from.All(ctx)
	gauge := func(d *prometheus.Desc, value float64) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value)
	}
	gauge(brokerUp, oneIf(err == nil && o.Broker == nil))
	gauge(storeUp, oneIf(err == nil && o.Store == nil))
	if err != nil {
		return
	}
	gauge(seen, float64(o.Time.UnixMilli())/1000)
	for _, s := range o.Queues {
		for _, m := range measures {
			if value, known := m.of(s); known {
				to <- prometheus.MustNewConstMetric(m.desc, m.kind, value, strings.ToValidUTF8(s.VHost, "\uFFFD"),
					strings.ToValidUTF8(s.Queue, "\uFFFD"))
			}
		}
	}
}
