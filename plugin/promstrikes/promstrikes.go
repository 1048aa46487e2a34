// Package promstrikes measures consumers for Prometheus. An Observer is given to a consumer.Consumer:
//
//	metrics, err := promstrikes.New(prometheus.DefaultRegisterer)
//	...
//	c := consumer.Consumer{Queue: "orders", Observer: metrics, ...}
//
// The labels are vhost, queue, outcome and cause, which have few values. The command strikes export has the
// figures that only the store knows, about all consumers together, in any language.
package promstrikes

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/strikesmq/strikes/consumer"
)

// Observer is a consumer.Observer. Use one for all consumers of a registry. It is safe for concurrent use.
type Observer struct {
	outcomes *prometheus.CounterVec
	attempts *prometheus.HistogramVec
	held     *prometheus.HistogramVec
}

var _ consumer.Observer = (*Observer)(nil)

// New registers the metrics and returns their Observer. It returns the error of the registry, such as
// prometheus.AlreadyRegisteredError.
func New(registry prometheus.Registerer) (*Observer, error) {
	o := &Observer{
		outcomes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "strikes_outcomes_total", Help: "What became of deliveries, and why.",
		}, []string{"vhost", "queue", "outcome", "cause"}),
		attempts: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "strikes_attempt_duration_seconds", Help: "How long handlers ran, by the outcome of the delivery.",
			Buckets: prometheus.ExponentialBuckets(0.001, 4, 10), // 1 ms to 4 min; the deadline of a handler is 5 minutes
		}, []string{"vhost", "queue", "outcome"}),
		held: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "strikes_delivery_duration_seconds", Help: "How long the process held deliveries until they were settled.",
			Buckets: prometheus.ExponentialBuckets(0.001, 4, 11),
		}, []string{"vhost", "queue", "outcome"}),
	}
	var errs []error
	for _, c := range []prometheus.Collector{o.outcomes, o.attempts, o.held} {
		errs = append(errs, registry.Register(c))
	}
	return o, errors.Join(errs...)
}

// Observe counts an outcome, and measures the attempt and the delivery that it ended.
func (o *Observer) Observe(_ context.Context, e consumer.Event) {
	vhost, queue, outcome := printable(e.VHost), printable(e.Queue), string(e.Outcome)
	o.outcomes.WithLabelValues(vhost, queue, outcome, string(e.Cause)).Inc()
	if e.Ran > 0 && slices.Contains(ended, e.Outcome) {
		o.attempts.WithLabelValues(vhost, queue, outcome).Observe(e.Ran.Seconds())
	}
	if slices.Contains(settled, e.Outcome) {
		o.held.WithLabelValues(vhost, queue, outcome).Observe(e.Elapsed.Seconds())
	}
}

// ended are the outcomes that are the first one after an attempt. A requeue follows the retry of its attempt.
var ended = []consumer.Outcome{consumer.OutcomeAck, consumer.OutcomeRetry, consumer.OutcomeDeadLetter,
	consumer.OutcomeNotCounted, consumer.OutcomeCrash}

// settled are the outcomes with which a delivery is acked or nacked.
var settled = []consumer.Outcome{consumer.OutcomeAck, consumer.OutcomeRequeue, consumer.OutcomeDeadLetter,
	consumer.OutcomeMove, consumer.OutcomeSuperseded}

// printable is a name as a label, which must be UTF-8.
func printable(name string) string { return strings.ToValidUTF8(name, "\uFFFD") }
