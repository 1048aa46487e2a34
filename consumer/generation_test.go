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

// FuzzFields gives a Consumer numbers of every size: it is refused with an error, or gets settings that can be worked
// with.
func FuzzFields(f *testing.F) {
	f.Add("orders", 3, 0, 1, 0, 0, int64(0), int64(0), int64(0))
	f.Add("", math.MinInt, -1, -1, -1, -1, int64(-1), int64(-1), int64(-1))
	f.Add("q", math.MaxInt, 99, math.MaxInt, math.MaxInt, math.MaxInt, int64(math.MaxInt64), int64(math.MaxInt64),
		int64(math.MaxInt64))
	f.Add("q", 1000, 2, 65535, 65535, 3, int64(15*time.Minute), int64(30*time.Minute), int64(math.MinInt64))
	f.Add("\x00", 0, 1, 65535, 1, 2, int64(1), int64(time.Minute), int64(1))
	f.Fuzz(func(t *testing.T, queue string, retries, retry, concurrency, prefetch, isolation int, handler, consuming,
		draining int64) {
		c := minimal()
		c.Queue, c.MaxRetries, c.Retry, c.Concurrency, c.Prefetch = queue, retries, RetryMode(retry), concurrency, prefetch
		c.Isolation = Isolation(isolation)
		c.HandlerTimeout, c.ConsumerTimeout, c.DrainTimeout = time.Duration(handler), time.Duration(consuming),
			time.Duration(draining)
		if c.validate(&amqp.Connection{}) != nil {
			return
		}
		s := newSession(c.withDefaults(), "", nil)
		switch set := s.Consumer; {
		case set.Queue == "" || s.vhost == "" || set.Name == "":
			t.Errorf("a name is empty: %+v", set)
		case set.Concurrency < 1 || set.Prefetch < 1 || set.Concurrency > 65535 || set.Prefetch > 65535:
			t.Errorf("%d handlers, a prefetch of %d", set.Concurrency, set.Prefetch)
		case s.limit() < 1 || s.limit() > maxMaxRetries+1:
			t.Errorf("a limit of %d", s.limit())
		case set.HandlerTimeout <= 0 || set.HandlerTimeout != math.MaxInt64 && set.HandlerTimeout > set.ConsumerTimeout/2:
			t.Errorf("handlers end after %v, deliveries after %v", set.HandlerTimeout, set.ConsumerTimeout)
		case startModes[set.Isolation] == 0 && set.Isolation != IsolationSuspects || set.Retry < RetryRequeue ||
			set.Retry > RetryInPlace:
			t.Errorf("isolation %d, retry %d", set.Isolation, set.Retry)
		}
		if d := DefaultBackoff(retries); d < 0 || d > backoffMost {
			t.Errorf("a backoff of %v after %d failed attempts", d, retries)
		}
	})
}
