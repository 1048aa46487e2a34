package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/cobra"

	"github.com/strikesmq/strikes/cmd/strikes/internal/connect"
	"github.com/strikesmq/strikes/internal/printable"
	"github.com/strikesmq/strikes/ops"
)

const (
	// exportKeep is how long figures are given out before broker and store are asked again.
	exportKeep = 5 * time.Second
	// patience is how long a scrape waits for broker and store: Prometheus gives up after 10 s by default.
	patience = 8 * time.Second
)

type exportOptions struct {
	connect.Flags

	listen string
	queues []string
}

func (a *app) exportCommand() *cobra.Command {
	var o exportOptions
	cmd := &cobra.Command{
		Use: "export", Short: "serve the figures of all queues to Prometheus",
		Example: "  strikes export\n  strikes export --listen :9464 --queue orders --queue billing",
		Long: `Serves at /metrics what only the store knows, for consumers in any language:
which queues are blocked and for how long, how many messages are retrying and
dead, which dead letters are unaccounted for, and which queues are paused. It
serves them for the virtual host of the AMQP URL. docs/telemetry.md lists the
metrics.

Broker and store are asked once in 5 s at most, however often /metrics is
scraped. One that does not answer is a metric (strikes_broker_up,
strikes_store_up), and export goes on. Only the management API can list the
queues; without it, name them with --queue.`,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.export(cmd.Context(), o) },
	}
	f := cmd.Flags()
	o.AddBroker(cmd)
	o.AddStore(cmd)
	o.AddManagement(cmd)
	f.StringVar(&o.listen, "listen", "127.0.0.1:9464", "serve at this `ADDRESS`; :9464 is all addresses of the machine")
	f.StringArrayVar(&o.queues, "queue", nil, "export this `QUEUE` (repeatable); none: all")
	return cmd
}

func (a *app) export(ctx context.Context, o exportOptions) (err error) {
	if err := a.checkQueues(ctx, &o.Flags, o.queues); err != nil {
		return err
	}
	b, err := o.Broker()
	if err != nil {
		return err
	}
	store, err := o.StoreUnasked()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	c := collector(b, store)
	c.Names = o.queues
	metrics := &exporter{from: c, log: a.Err}
	defer metrics.close()
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", metrics.handler())
	mux.Handle("GET /{$}", http.RedirectHandler("/metrics", http.StatusFound))
	listener, err := listen(ctx, "listen", o.listen)
	if err != nil {
		return err
	}
	fmt.Fprintf(a.Err, "strikes: serving http://%s/metrics\n", listener.Addr())
	return serve(ctx, listener, brief(mux))
}

// source is where the figures come from: an *ops.Collector.
type source interface {
	All(ctx context.Context) (ops.Overview, error)
	Close()
}

// exporter describes and collects the metrics of all queues. It keeps the figures for a while, so that scrapes cannot
// overload broker and store.
type exporter struct {
	from source
	log  io.Writer // says when the broker or the store is down, and when it is up again

	mu   sync.Mutex // one scrape at a time asks
	last ops.Overview
	err  error
	at   time.Time // when these were complete
	down map[string]bool
}

func (c *exporter) handler() http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(c)
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
}

// close waits for a scrape under way, and closes the source.
func (c *exporter) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.from.Close()
}

// figures returns the last figures, or new ones if those are older than exportKeep. Scrapes that waited for a slow
// answer share it, also an error.
func (c *exporter) figures() (ops.Overview, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.at) < exportKeep {
		return c.last, c.err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c.last, c.err = c.from.All(ctx)
	c.at = time.Now()
	c.tell("broker", brokerDown(c.last, c.err))
	c.tell("store", storeDown(c.last, c.err))
	return c.last, c.err
}

// brokerDown is why the broker has not replied to every question; nil: it has.
func brokerDown(o ops.Overview, err error) error { return cmp.Or(err, o.Broker) }

// storeDown is the same of the store. Another program's key hides the figures of a queue.
func storeDown(o ops.Overview, err error) error {
	if i := slices.IndexFunc(o.Queues, func(s ops.Status) bool { return s.Unknown != "" }); i >= 0 {
		err = cmp.Or(err, o.Store, fmt.Errorf("queue %q: %s", o.Queues[i].Queue, o.Queues[i].Unknown))
	}
	return cmp.Or(err, o.Store)
}

// tell prints a change: the metrics do not say why the broker or the store is down.
func (c *exporter) tell(name string, err error) {
	if c.log == nil || c.down[name] == (err != nil) {
		return
	}
	if c.down == nil {
		c.down = map[string]bool{}
	}
	c.down[name] = err != nil
	if err == nil {
		fmt.Fprintf(c.log, "strikes: the %s is up again\n", name)
		return
	}
	fmt.Fprintf(c.log, "strikes: warning: strikes_%s_up is 0: %s\n", name, printable.Text(err.Error(), ""))
}

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
	of   func(ops.Status) (value float64, known bool)

	each bool // it is measured in each partition of a queue that has some
}

func measured(name, help string, kind prometheus.ValueType, of func(ops.Status) (float64, bool)) measure {
	return measure{prometheus.NewDesc(name, help, []string{"vhost", "queue"}, nil), kind, of, false}
}

// stored is a gauge that only the store knows.
func stored(name, help string, of func(ops.Status) float64) measure {
	return measured(name, help, prometheus.GaugeValue, fromStore(of))
}

// inEach is a gauge with the label partition. It is empty for a queue without partitions.
func inEach(name, help string, of func(ops.Status) (float64, bool)) measure {
	return measure{prometheus.NewDesc(name, help, []string{"vhost", "queue", "partition"}, nil), prometheus.GaugeValue, of,
		true}
}

// measures are the figures of each queue. One that is not known is absent.
var measures = []measure{
	stored("strikes_retrying_messages", "Messages that failed or run again, and are not dead-lettered.",
		func(s ops.Status) float64 { return float64(s.Retrying - s.Forgotten) }),
	stored("strikes_forgotten_messages", "Messages whose next attempt has been due for over 5 minutes, and could begin.",
		func(s ops.Status) float64 { return float64(s.Forgotten) }),
	stored("strikes_waiting_messages", "Messages that consumers hold because the attempts at them are not counted.",
		func(s ops.Status) float64 { return float64(s.AllWaiting().Messages) }),
	stored("strikes_head_blocked_seconds", "How long the longest-blocking message has blocked; 0 if none does.",
		func(s ops.Status) float64 { return s.Blocked.Seconds() }),
	stored("strikes_dead_letters", "Dead letters that were neither replayed nor dropped.",
		func(s ops.Status) float64 { return float64(s.Dead.Still) }),
	measured("strikes_dead_lettered_total", "Messages that consumers dead-lettered.", prometheus.CounterValue,
		fromStore(func(s ops.Status) float64 { return float64(s.Dead.Count) })),
	measured("strikes_dead_letters_unaccounted", "Dead letters that are neither in the dead-letter queue nor known to "+
		"have left it.", prometheus.GaugeValue,
		func(s ops.Status) (float64, bool) {
			return float64(s.Dead.Missing), s.StoreSeen && s.Dead.Holds != nil
		}),
	inEach("strikes_blocked_lanes", "Blocked lanes of the queue, or of a partition of it.",
		fromStore(func(s ops.Status) float64 { return float64(s.BlockedLanes) })),
	stored("strikes_blocked_dead_letters", "Dead letters of blocked lanes that had no attempt.",
		func(s ops.Status) float64 { return float64(s.Dead.Blocked) }),
	stored("strikes_queue_paused", "Whether an operator paused the queue.",
		func(s ops.Status) float64 { return oneIf(s.Paused != nil) }),
	stored("strikes_open_seconds", "How long nothing has succeeded in the queue, so that nothing is counted; 0: its "+
		"breaker is closed.",
		func(s ops.Status) float64 { return s.Stopped.Seconds() }),
	inEach("strikes_queue_consumers", "Consumers of the queue, or of a partition of it.",
		func(s ops.Status) (float64, bool) { return known(s.Consumers) }),
	inEach("strikes_queue_ready_messages", "Messages in the queue, or in a partition of it, that no consumer holds.",
		func(s ops.Status) (float64, bool) { return known(s.Ready) }),
}

func fromStore(of func(ops.Status) float64) func(ops.Status) (float64, bool) {
	return func(s ops.Status) (float64, bool) { return of(s), s.StoreSeen }
}

func known(n *int) (float64, bool) {
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

func (c *exporter) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{brokerUp, storeUp, seen} {
		to <- d
	}
	for _, m := range measures {
		to <- m.desc
	}
}

// Collect reports a broker or store that does not answer every question as down. It sends no figure of an earlier
// scrape.
func (c *exporter) Collect(to chan<- prometheus.Metric) {
	o, err := c.figures()
	gauge := func(d *prometheus.Desc, value float64) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value)
	}
	gauge(brokerUp, oneIf(brokerDown(o, err) == nil))
	gauge(storeUp, oneIf(storeDown(o, err) == nil))
	if err != nil {
		return
	}
	gauge(seen, float64(o.Time.UnixMilli())/1000)
	for _, s := range o.Queues {
		if s.Absent { // zeros would look like a queue that is well
			continue
		}
		labels := []string{strings.ToValidUTF8(s.VHost, "\uFFFD"), strings.ToValidUTF8(s.Queue, "\uFFFD")}
		send := func(m measure, s ops.Status, labels ...string) {
			if value, known := m.of(s); known {
				to <- prometheus.MustNewConstMetric(m.desc, m.kind, value, labels...)
			}
		}
		for _, m := range measures {
			if !m.each {
				send(m, s, labels...)
				continue
			}
			if len(s.Partitions) == 0 {
				send(m, s, labels[0], labels[1], "")
			}
			for _, p := range s.Partitions {
				of := ops.Status{StoreSeen: s.StoreSeen, BlockedLanes: p.BlockedLanes}
				if s.Ready != nil && !p.Missing {
					of.Ready, of.Consumers = &p.Ready, &p.Consumers
				}
				send(m, of, labels[0], labels[1], strings.ToValidUTF8(p.Queue, "\uFFFD"))
			}
		}
	}
}
