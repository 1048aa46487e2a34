package broker

import (
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
)

func TestRequeue(t *testing.T) {
	const none = -2
	versions := []Version{{3, 10}, {4, 0}, {4, 3}, {}}
	for _, tt := range []struct {
		kind  string
		limit int64
		want  [4]Position
	}{
		{Classic, none, [4]Position{PositionOriginal, PositionOriginal, PositionOriginal, PositionOriginal}},
		{Quorum, none, [4]Position{PositionTail, PositionHead, PositionHead, PositionUnknown}},
		{Quorum, 7, [4]Position{PositionHead, PositionHead, PositionHead, PositionUnknown}},
		{Quorum, -1, [4]Position{PositionDiscarded, PositionTail, PositionHead, PositionUnknown}},
		{Stream, none, [4]Position{}},
		{"", none, [4]Position{}},
	} {
		for i, v := range versions {
			q := Queue{Version: v, Declared: Declared{Type: tt.kind, Args: amqp.Table{}}}
			if tt.limit != none {
				q.Args[ArgDeliveryLimit] = tt.limit
			}
			if got := q.Requeue(); got != tt.want[i] {
				t.Errorf("%s queue with limit %d on RabbitMQ %s: position %d, want %d", tt.kind, tt.limit, v, got, tt.want[i])
			}
		}
	}
}

func TestReturnLimit(t *testing.T) {
	for _, tt := range []struct {
		kind        string
		arg, policy any
		version     Version
		want        int64
		limited     bool
	}{
		{Classic, nil, nil, Version{4, 3}, 0, false},
		{Quorum, nil, nil, Version{3, 10}, 0, false},
		{Quorum, nil, nil, Version{4, 0}, brokerDeliveryLimit, true},
		{Quorum, int64(7), nil, Version{3, 10}, 7, true},
		{Quorum, int64(7), int64(3), Version{4, 3}, 3, true},
		{Quorum, int64(7), int64(-1), Version{4, 3}, 7, true},
		{Quorum, int64(7), int64(-1), Version{3, 10}, 0, false},
		{Quorum, int64(-1), nil, Version{4, 3}, 0, false},
	} {
		q := Queue{Version: tt.version, Declared: Declared{Type: tt.kind, Args: amqp.Table{ArgDeliveryLimit: tt.arg}},
			Policy: amqp.Table{"delivery-limit": tt.policy}}
		if got, limited := q.ReturnLimit(); got != tt.want || limited != tt.limited {
			t.Errorf("%+v: %d, %v", tt, got, limited)
		}
	}
}
