package broker

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

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
