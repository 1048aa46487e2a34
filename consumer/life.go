package consumer

import (
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/counter"
)

// LifeHeader is the header that begins a new life of a message, with a full budget: whoever publishes a dead letter again
// under its old id gives it a value that the id never had before.
const LifeHeader = "x-strikes-life"

// FenceHeader is an int64: the fence of the first delivery of a replayed message. `strikes dead replay` makes it greater than
// every fence that the message had before. See Attempt.Fence.
const FenceHeader = "x-strikes-fence"

// life tells the lives of a message apart: by the header and by the newest death in this queue, each if there is one. Either
// may be the newer: a replay takes x-death off and changes the header, a tool that moves a dead letter back keeps the header
// and the new x-death. A life never outlasts a change of one of them, so nothing needs to tell which came last.
func life(headers amqp.Table, queue string) string {
	name := ""
	if d, ok := newestDeath(headers, queue); ok {
		name = fmt.Sprintf("%v@%d", d.count, d.at.Unix())
	}
	if v, ok := headers[LifeHeader].(string); ok && v != "" {
		if name != "" {
			name += " "
		}
		name += "header:" + v
	}
	return name
}

// carriedFence is the fence that a message carries: that of the last replay, or the end of the second in which it died last,
// in microseconds since 1970, if it died since. Zero if there is neither, or nothing of their form.
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

// newestDeath is the newest dead-lettering from this queue that was a reject or a delivery limit. RabbitMQ 4.x keeps the
// count at 1 and changes the time, 3.10 the other way round, so both are taken (measured on 3.10.8, 4.0.5 and 4.3.6).
// Anything of another form, which any publisher can send, is no death.
func newestDeath(headers amqp.Table, queue string) (xDeath, bool) {
	deaths, _ := headers["x-death"].([]any)
	for _, entry := range deaths {
		d, _ := entry.(amqp.Table)
		if reason := d["reason"]; d["queue"] == queue && (reason == "rejected" || reason == "delivery_limit") {
			at, ok := d["time"].(time.Time) // else it is not the broker's, and would be the same each time it comes
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
