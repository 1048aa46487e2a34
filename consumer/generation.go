package consumer

import (
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/counter"
)

// GenerationHeader begins a new generation of a message, with the full limit of attempts. A replay of a dead letter under its old
// id sets it to a value that the id never had before.
const GenerationHeader = "x-strikes-generation"

// FenceHeader is the header for the fence of a replayed message's first delivery, an int64. `strikes dead replay` makes it
// greater than every fence that the message had before. See Attempt.Fence.
const FenceHeader = "x-strikes-fence"

// generation names a generation of a message, by the header and the newest death in this queue, each if there is one. Either may be
// newer: a replay removes x-death and changes the header; a tool that moves a dead letter back keeps the header and the new
// x-death. A change of either begins a generation, so their order does not matter.
func generation(headers amqp.Table, queue string) string {
	name := ""
	if d, ok := newestDeath(headers, queue); ok {
		name = fmt.Sprintf("%v@%d", d.count, d.at.Unix())
	}
	if v, ok := headers[GenerationHeader].(string); ok && v != "" {
		if name != "" {
			name += " "
		}
		name += "header:" + v
	}
	return name
}

// carriedFence returns the fence that a message carries: that of the last replay, or the end of the second in which it died
// last, in microseconds since 1970, if it died since. Zero if it has neither in a valid form.
func carriedFence(headers amqp.Table, queue string) int64 {
	fence, _ := headers[FenceHeader].(int64)
	if fence < 0 || fence > counter.MaxFloor { // any publisher can send it
		fence = 0
	}
	if d, ok := newestDeath(headers, queue); ok {
		if end := d.at.Add(time.Second).UnixMicro(); end <= counter.MaxFloor {
			fence = max(fence, end)
		}
	}
	return fence
}

// xDeath is what an entry of x-death says.
type xDeath struct {
	count int64
	at    time.Time
}

// newestDeath returns the newest dead-lettering from this queue by a reject or a delivery limit. RabbitMQ 4.x keeps the count
// at 1 and changes the time; 3.10 does the reverse, so both are used (measured on 3.10.8, 4.0.5 and 4.3.6). Entries of
// another form, which any publisher can send, are ignored.
func newestDeath(headers amqp.Table, queue string) (xDeath, bool) {
	deaths, _ := headers["x-death"].([]any)
	for _, entry := range deaths {
		d, _ := entry.(amqp.Table)
		if reason := d["reason"]; d["queue"] == queue && (reason == "rejected" || reason == "delivery_limit") {
			at, ok := d["time"].(time.Time) // without a time the entry is not the broker's, and would never change
			return xDeath{count(d["count"]), at}, ok
		}
	}
	return xDeath{}, false
}

func count(v any) int64 {
	switch n := v.(type) {
	case int64:
		return n
	case int32:
		return int64(n)
	case int:
		return int64(n)
	}
	return 0
}
