package main

import (
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// TestLaneOf: a lane has one name, whatever the host of its consumer.
func TestLaneOf(t *testing.T) {
	at := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		value any
		want  string
	}{
		{nil, ""}, {"a1", "a1"}, {"", ""}, {[]byte("a1"), "a1"}, {int32(7), "7"}, {int64(7), "7"}, {true, "true"},
		{at, "2026-11-23T12:00:00Z"}, {at.In(time.FixedZone("east", 3600)), "2026-11-23T12:00:00Z"},
	} {
		if got := laneOf(amqp.Table{"lane": tt.value}, "lane"); got != tt.want {
			t.Errorf("%#v is of lane %q, want %q", tt.value, got, tt.want)
		}
	}
	if got := laneOf(nil, "lane"); got != "" {
		t.Errorf("without the header: %q", got)
	}
}
