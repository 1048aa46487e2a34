package deadletter

import (
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// LifeHeader begins a new life of a message, with a full budget of retries, when
// it is published again under its old id. It is the header of that name in
// package consumer.
const LifeHeader = "x-strikes-life"

// LineageHeader of a replayed message is a table that tells where it comes from:
//
//	count   int64      how often it was replayed
//	from    string     the dead-letter queue
//	queue   string     where it had died
//	reason  string     why, from the counter's record or as the broker calls it
//	died    timestamp  when
//	again   bool       it had been handed out before, so a replay that was cut off may have published it too
//	user    string     the user-id it had, which only that user may publish
const LineageHeader = "x-strikes-replay"

// maxReason is how much of a reason a replayed message carries, in bytes.
const maxReason = 200

// livesOf are the names that package consumer may have given to the life in
// which the message died, likeliest first. With the header there is no doubt.
// Else it was named by the x-death entry as it was then: none, or on RabbitMQ
// 3.10 one of the same time and a lower count.
func livesOf(headers amqp.Table, died Death) []string {
	if v, ok := headers[LifeHeader].(string); ok && v != "" {
		return []string{"header:" + v}
	}
	if died.Count > 1 {
		return []string{fmt.Sprintf("%d@%d", died.Count-1, died.Time.Unix()), ""}
	}
	return []string{""}
}

// nextLife is the same however often the same dead letter is replayed, so that
// copies are told by it, and differs from every earlier one of the id.
func nextLife(replays int64, died Death, now time.Time) string {
	if died.Time.IsZero() {
		return fmt.Sprintf("%d-%d", replays, now.UnixNano())
	}
	return fmt.Sprintf("%d-%d-%d", replays, died.Time.Unix(), died.Count)
}

// replaysOf is how often the message was replayed already.
func replaysOf(headers amqp.Table) int64 {
	lineage, _ := headers[LineageHeader].(amqp.Table)
	return max(integer(lineage["count"]), 0)
}
