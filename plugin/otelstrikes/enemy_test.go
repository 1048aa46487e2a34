package otelstrikes

import (
	"fmt"
	"testing"
	"unicode/utf8"

	amqp "github.com/rabbitmq/amqp091-go"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

// TestRoutingKeysAreNoMetrics: a publisher with a routing key for each customer has one series.
func TestRoutingKeysAreNoMetrics(t *testing.T) {
	r := newRecorder()
	tel, err := r.telemetry()
	if err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		_, done := tel.send(t.Context(), "shop", fmt.Sprint("customer.", i), &amqp.Publishing{})
		done(nil)
	}
	var got metricdata.ResourceMetrics
	if err := r.Collect(t.Context(), &got); err != nil {
		t.Fatal(err)
	}
	for _, m := range got.ScopeMetrics[0].Metrics {
		if sum, ok := m.Data.(metricdata.Sum[int64]); ok && len(sum.DataPoints) != 1 {
			t.Errorf("%s has %d series", m.Name, len(sum.DataPoints))
		}
	}
}

// TestTextsAreValid: OTLP refuses a batch of spans for one text that is no UTF-8.
func TestTextsAreValid(t *testing.T) {
	for _, a := range of(amqp.Publishing{MessageId: "a\xff", CorrelationId: "b\xff"}, "c\xff") {
		if a.Value.Type() == attribute.STRING && !utf8.ValidString(a.Value.AsString()) {
			t.Errorf("%s is %q", a.Key, a.Value.AsString())
		}
	}
}
