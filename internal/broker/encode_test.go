package broker

import (
	"encoding/json"
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
		"mode":       {msg: amqp.Publishing{DeliveryMode: 3}, says: "Transient, got 3"},
		"expiration": {msg: amqp.Publishing{Expiration: "5s"}, says: `milliseconds, got "5s"`},
		"eleven years": {msg: amqp.Publishing{Expiration: "346896000000"},
			says: `0 to 315360000000 whole milliseconds, got "346896000000"`},
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
		MessageId: limit, DeliveryMode: amqp.Transient, Expiration: "315360000000",
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

// FuzzHeaderSize: a message that is accepted can be encoded. Any other is refused, before it could break a connection.
func FuzzHeaderSize(f *testing.F) {
	f.Add("", "orders", "m1", "", `{"a":[1,{"b":null}]}`, uint8(0))
	f.Add(strings.Repeat("x", 256), "", "", "-1", `{"":""}`, uint8(3))
	f.Add("", "", "\xff\x00", "18446744073709551616", `{"x-death":[{"count":1e300,"time":"2026-01-02T03:04:05Z"}]}`,
		uint8(2))
	f.Add("", "", "", "1_000", `{"deep":`+strings.Repeat(`[`, 40)+strings.Repeat(`]`, 40)+`}`, uint8(1))
	f.Add("", "", "", "1e3", `{"deep":`+strings.Repeat(`{"d":`, 33)+`1`+strings.Repeat(`}`, 33)+`}`, uint8(1))
	f.Fuzz(func(t *testing.T, exchange, key, id, expiration, headers string, mode uint8) {
		var object map[string]any
		if json.Unmarshal([]byte(headers), &object) != nil {
			return
		}
		msg := amqp.Publishing{MessageId: id, Expiration: expiration, DeliveryMode: mode, Headers: headerTable(object)}
		size, err := HeaderSize(exchange, key, &msg)
		switch {
		case err == nil && (len(exchange) > maxShort || len(key) > maxShort || len(id) > maxShort || size < 14):
			t.Errorf("%q, %q, %q accepted, with a header of %d bytes", exchange, key, id, size)
		case err == nil && msg.Headers.Validate() != nil:
			t.Errorf("%v accepted: %v", msg.Headers, msg.Headers.Validate())
		}
	})
}

func headerTable(object map[string]any) amqp.Table {
	out := amqp.Table{}
	for k, v := range object {
		out[k] = headerValue(v)
	}
	return out
}

// headerValue turns JSON's values into AMQP's, of every type in turn.
func headerValue(v any) any {
	switch v := v.(type) {
	case map[string]any:
		return headerTable(v)
	case []any:
		for i := range v {
			v[i] = headerValue(v[i])
		}
	case string:
		if at, err := time.Parse(time.RFC3339, v); err == nil {
			return at
		}
		if len(v)%3 == 1 {
			return []byte(v)
		}
	case float64:
		switch whole := int64(v); {
		case float64(whole) != v:
		case whole%5 == 0:
			return int(whole)
		case whole%5 == 1:
			return amqp.Decimal{Scale: uint8(whole), Value: int32(whole)}
		case whole%5 == 2:
			return int16(whole)
		case whole%5 == 3:
			return whole
		}
	}
	return v
}
