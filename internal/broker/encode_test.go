package broker

import (
	"math"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

func nested(levels int) amqp.Table {
	t := amqp.Table{}
	for range levels {
		t = amqp.Table{"t": t}
	}
	return t
}

func TestHeaderSizeRefuses(t *testing.T) {
	long := strings.Repeat("x", 256)
	header := func(v any) amqp.Publishing { return amqp.Publishing{Headers: amqp.Table{"h": v}} }
	tests := map[string]struct {
		exchange, key string
		msg           amqp.Publishing
		says          string
	}{
		"exchange": {exchange: long, says: "the exchange must be at most 255 bytes long, got 256"},
		"key":      {key: long, says: "the routing key must be at most 255 bytes long, got 256"},
		"id": {msg: amqp.Publishing{MessageId: long},
			says: "the MessageId must be at most 255 bytes long, got 256"},
		"property": {msg: amqp.Publishing{CorrelationId: long},
			says: "the CorrelationId must be at most 255 bytes long, got 256"},
		"mode":           {msg: amqp.Publishing{DeliveryMode: 3}, says: "Transient, got 3"},
		"expiration":     {msg: amqp.Publishing{Expiration: "5s"}, says: `milliseconds, got "5s"`},
		"negative":       {msg: amqp.Publishing{Expiration: "-1"}, says: `milliseconds, got "-1"`},
		"header key":     {msg: amqp.Publishing{Headers: amqp.Table{long: 1}}, says: "at most 255 bytes long, got 256"},
		"header type":    {msg: header(uint64(1)), says: `"h": a value of type uint64`},
		"plain map":      {msg: header(map[string]any{}), says: "map[string]interface"},
		"type in array":  {msg: header([]any{1, struct{}{}}), says: `"h": element 1: a value of type struct`},
		"large int":      {msg: header(1 << 31), says: "does not fit in 32 bits"},
		"small int":      {msg: header(-1<<31 - 1), says: "does not fit in 32 bits"},
		"NaN":            {msg: header(math.NaN()), says: "NaN"},
		"infinity":       {msg: header(float32(math.Inf(-1))), says: "-Inf"},
		"deep":           {msg: amqp.Publishing{Headers: nested(33)}, says: "deeper than the 32"},
		"many in array":  {msg: header(make([]any, 8193)), says: "8193 elements"},
		"type in nested": {msg: header(amqp.Table{"a": amqp.Table{"b": int32(1), "c": 1i}}), says: `"h": "a": "c": a value`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := HeaderSize(tt.exchange, tt.key, &tt.msg)
			if err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("got %v, want one that says %q", err, tt.says)
			}
		})
	}
}

func TestHeaderSizeAccepts(t *testing.T) {
	limit := strings.Repeat("x", 255)
	msg := amqp.Publishing{
		MessageId: limit, DeliveryMode: amqp.Transient, Expiration: "0",
		Headers: amqp.Table{
			limit: nil, "deep": nested(31), "many": make([]any, 8192), "int": math.MinInt32,
			"all": []any{true, byte(1), int8(1), int16(1), uint16(1), int32(1), uint32(1), int64(1),
				float32(1), 1.5, amqp.Decimal{Scale: 1, Value: 2}, "s", []byte("b"), time.Unix(0, 0), amqp.Table{}, []any{}},
		},
	}
	if _, err := HeaderSize(limit, limit, &msg); err != nil {
		t.Error(err)
	}
}

func TestTableSize(t *testing.T) {
	tests := []struct {
		table amqp.Table
		want  int
	}{
		{nil, 4},
		{amqp.Table{"ab": nil}, 4 + 3 + 1},
		{amqp.Table{"a": "xyz"}, 4 + 2 + 5 + 3},
		{amqp.Table{"a": amqp.Table{"b": int64(1)}}, 4 + 2 + 1 + 4 + 2 + 9},
		{amqp.Table{"a": []any{true, 1, []byte("xy")}}, 4 + 2 + 1 + 4 + 2 + 5 + 7},
	}
	for _, tt := range tests {
		if got, err := tableSize(tt.table, 0); got != tt.want || err != nil {
			t.Errorf("%v: %d, %v; want %d", tt.table, got, err, tt.want)
		}
	}
}
