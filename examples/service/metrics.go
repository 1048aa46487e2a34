package main

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/strikesmq/strikes/consumer"
)

// metrics is an Observer for Prometheus. Queue, outcome and cause have few values; a message's id would be one label
// too many.
type metrics struct {
	outcomes *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
}

func newMetrics(reg prometheus.Registerer) metrics {
	m := metrics{
		outcomes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "strikes_outcomes_total", Help: "What became of deliveries.",
		}, []string{"queue", "outcome", "cause"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "strikes_handler_seconds", Help: "How long handlers ran.",
		}, []string{"queue"}),
	}
	reg.MustRegister(m.outcomes, m.seconds)
	return m
}

// Observe counts one outcome.
func (m metrics) Observe(_ context.Context, e consumer.Event) {
	m.outcomes.WithLabelValues(e.Queue, string(e.Outcome), string(e.Cause)).Inc()
	if e.Outcome == consumer.OutcomeAck || e.Outcome == consumer.OutcomeRetry || e.Outcome == consumer.OutcomeDeadLetter {
		m.seconds.WithLabelValues(e.Queue).Observe(e.Ran.Seconds())
	}
}
