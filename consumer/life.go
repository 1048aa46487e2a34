package consumer

import (
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// LifeHeader is the header that begins a new life of a message, with a full budget: whoever publishes a dead letter again
// under its old id gives it a value that the id never had before.
const LifeHeader = "x-strikes-life"

// life tells the lives of a message apart: by the header, else by the newest dead-lettering from this queue that was a
// reject or a delivery limit. RabbitMQ 4.x keeps the count at 1 and changes the time, 3.10 the other way round, so both
// are taken (measured on 3.10.8, 4.0.5 and 4.3.6). Anything of another form, which any publisher can send, is no life.
func life(headers amqp.Table, queue string) string {
	if headers == nil {
		return ""
	}
	if v, ok := headers[LifeHeader].(string); ok && v != "" {
		return "header:" + v
	}
	deaths, _ := headers["x-death"].([]any)
	for _, entry := range deaths {
		death, _ := entry.(amqp.Table)
		if reason := death["reason"]; death["queue"] == queue && (reason == "rejected" || reason == "delivery_limit") {
			at, ok := death["time"].(time.Time)
			if !ok { // it is not the broker's, and would be the same each time it comes
				return ""
			}
			return fmt.Sprintf("%v@%d", count(death["count"]), at.Unix())
		}
	}
	return ""
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
