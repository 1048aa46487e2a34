package main

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/strikesmq/strikes/consumer"
)

// metrics is an Observer for Prometheus. Queue, decision and cause have few values; a message's id would be one label too many.
type metrics struct {
	decisions *prometheus.CounterVec
	seconds   *prometheus.HistogramVec
}

func newMetrics(reg prometheus.Registerer) metrics {
	m := metrics{
		decisions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "strikes_decisions_total", Help: "What was done with deliveries.",
		}, []string{"queue", "decision", "cause"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "strikes_handler_seconds", Help: "How long handlers ran.",
		}, []string{"queue"}),
	}
	reg.MustRegister(m.decisions, m.seconds)
	return m
}

// Observe counts one decision.
func (m metrics) Observe(_ context.Context, e consumer.Event) {
	m.decisions.WithLabelValues(e.Queue, string(e.Outcome), string(e.Cause)).Inc()
	if e.Outcome == consumer.OutcomeAck || e.Outcome == consumer.OutcomeRetry || e.Outcome == consumer.OutcomeDeadLetter {
		m.seconds.WithLabelValues(e.Queue).Observe(e.Ran.Seconds())
	}
}
