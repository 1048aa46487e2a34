package consumer

import (
	"encoding/hex"
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/counter/rules"
	"github.com/strikesmq/strikes/internal/broker"
)

func death(queue, reason string, count any, at time.Time) amqp.Table {
	return amqp.Table{"queue": queue, "reason": reason, "count": count, "time": at}
}

// written returns headers as they were written for a message of queue orders.
func written(headers amqp.Table, id string) amqp.Table {
	out := broker.Merge(headers)
	broker.WriteFor(out, "orders", id, nil)
	return out
}

// FuzzGeneration feeds x-death headers of every form that a publisher can send: JSON with the types that only AMQP
// has, see typed.
func FuzzGeneration(f *testing.F) {
	for _, seed := range []string{
		`[{"queue":"orders","reason":"rejected","count":1,"time":"2026-01-02T03:04:05Z"}]`,
		`[{"queue":"orders","reason":"delivery_limit","count":-9223372036854775808,"time":"9999-12-31T23:59:59Z"}]`,
		`[{"queue":"orders","reason":"rejected","count":9223372036854775808,"time":1}]`,
		`[{"queue":"orders","reason":"rejected","count":{"count":1},"time":[]}]`,
		`[{"queue":"0x6f7264657273","reason":"0x72656a6563746564","count":"1"}]`,
		`[{"queue":["orders"],"reason":{"rejected":true}},{"queue":"orders","reason":"rejected"}]`,
		`[null,[],[[{"queue":"orders","reason":"rejected"}]],{"queue":"orders","reason":"rejected","time":null}]`,
		`{"queue":"orders","reason":"rejected"}`, `[{}]`, `[]`, `""`, `"yesterday"`, `null`, `1e999`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var v any
		if json.Unmarshal([]byte(text), &v) != nil {
			return
		}
		headers := amqp.Table{"x-death": typed(v)}
		read := func() broker.Headers {
			return broker.ReadHeaders(written(headers, "order 17"), "orders", "order 17", nil)
		}
		got := read().Generation()
		if again := read().Generation(); again != got {
			t.Errorf("one message has two generations: %q and %q", got, again)
		}
		if strings.Contains(got, "header:") {
			t.Errorf("the broker's header made the generation of a replay: %q", got)
		}
		headers[GenerationHeader], headers[FenceHeader] = typed(v), typed(v)
		want := got
		if name, _ := headers[GenerationHeader].(string); name != "" {
			want = strings.TrimPrefix(got+" header:"+name, " ")
		}
		if replayed := read().Generation(); replayed != want {
			t.Errorf("with the header of a replay the generation is %q, not %q", replayed, want)
		}
		if fence := carriedFence(read()); fence < 0 || fence > rules.MaxFence {
			t.Errorf("the fence is %d", fence)
		}
	})
}

// typed turns JSON into the types of AMQP tables: objects into tables, whole numbers into integers of 32 or 64 bits,
// texts that are times into times, and texts of 0x and hexadecimal digits into bytes.
func typed(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := amqp.Table{}
		for k, x := range v {
			out[k] = typed(x)
		}
		return out
	case []any:
		for i := range v {
			v[i] = typed(v[i])
		}
	case float64:
		switch {
		case v != math.Trunc(v):
		case math.Abs(v) < 1<<31:
			return int32(v)
		case math.Abs(v) < 1<<63:
			return int64(v)
		}
	case string:
		if at, err := time.Parse(time.RFC3339, v); err == nil {
			return at
		}
		if digits, ok := strings.CutPrefix(v, "0x"); ok {
			if b, err := hex.DecodeString(digits); err == nil {
				return b
			}
		}
	}
	return v
}
