package broker

import (
	"errors"
	"strings"
	"testing"
)

func TestManagementLoad(t *testing.T) {
	m := serve(t, map[string]string{
		"/api/queues/%2F/orders": `{"name":"orders","messages_unacknowledged":7,"messages_dlx":5,"consumers":3,
			"message_stats":{"publish":90,"publish_details":{"rate":12.5},"deliver_get":80,"deliver_get_details":{"rate":3},
			"ack":40,"ack_details":{"rate":2.4},"get_no_ack":2,"deliver_no_ack":3}}`,
		"/api/queues/%2F/idle":     `{"name":"idle","messages_unacknowledged":0}`,
		"/api/queues/%2F/declared": `{"name":"declared"}`,
		"/api/queues/%2F/broken":   `[]`,
	})
	for queue, want := range map[string]Load{
		"orders":   {Unacked: 7, DeadLettering: 5, Consumers: 3, In: 12.5, Out: 3, Acked: 2.4, Taken: 45},
		"idle":     {},
		"declared": {},
	} {
		if got, err := m.load(t.Context(), "/", queue); got != want || err != nil {
			t.Errorf("%s: %+v, %v, want %+v", queue, got, err, want)
		}
	}
	if _, err := m.load(t.Context(), "/", "none"); !errors.Is(err, ErrNoObject) {
		t.Errorf("a queue that is not there: %v", err)
	}
	if _, err := m.load(t.Context(), "/", "broken"); err == nil || !strings.Contains(err.Error(),
		"not the JSON expected") {
		t.Errorf("another answer: %v", err)
	}
}
