package deadletter

import (
	"fmt"
	"maps"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/internal/printable"
	"github.com/strikesmq/strikes/publisher"
)

// maxReason is how much of a reason a replayed message carries, in bytes.
const maxReason = 200

// again returns the message as a replay from the dead-letter queue publishes it. It goes to the queue in which it died.
// If that is a partition, it goes the way that it came, so that it keeps its routing key.
func (m *Message) again(from string) (publisher.Message, error) {
	switch {
	case m.Origin.Queue == "":
		return publisher.Message{}, fmt.Errorf("%w: message %q: drop it, and publish it to a queue", ErrNoOrigin, m.Name())
	case m.PartitionKey() != "":
		return publisher.Message{Exchange: m.Queue, Key: m.PartitionKey(), Publishing: m.ForReplay(from)}, nil
	}
	return publisher.Message{Key: m.Origin.Queue, Publishing: m.forReplay(from, m.Origin.Queue, time.Now())}, nil
}

// ForReplay returns the message as a replay from the dead-letter queue publishes it. Keep it if you publish a dead
// letter by other means. It is persistent, has an id, begins a new generation in whatever queue it reaches, and has a
// LineageHeader. It lacks properties that the broker would act on or refuse, and those that are valid in one queue
// only:
//
//   - x-death and the like: RabbitMQ 3.10 counts on in an x-death that it receives, and they describe the last
//     generation;
//   - CC and BCC: copies would go to queues in which nothing died;
//   - the user-id: only that user may publish it;
//   - the PositionHeader: it is valid only for ReplayLane;
//   - headers of strikes that were written for another message.
func (m *Message) ForReplay(from string) amqp.Publishing { return m.forReplay(from, "", time.Now()) }

// forReplay is ForReplay for a message that goes to a queue; empty: to one that is not known.
func (m *Message) forReplay(from, queue string, now time.Time) amqp.Publishing {
	msg, replays := m.Publishing, m.Replays+1
	m.next = nextGeneration(replays, m.Origin, now)
	msg.Headers = m.ours().Copy()
	maps.DeleteFunc(msg.Headers, func(name string, _ any) bool {
		return name == PositionHeader || broker.OfACopy(name) || broker.OfTheBroker(name)
	})
	msg.Headers[GenerationHeader] = m.next
	msg.Headers[FenceHeader] = nextFence(m, now)
	msg.Headers[LineageHeader] = lineage(m, from, replays)
	if _, has := msg.Headers[broker.PartitionHeader]; has && m.partitions > 0 { // the number may have changed
		msg.Headers[broker.PartitionHeader] = broker.PartitionValue(broker.PartitionOf(m.Origin.Key, m.partitions),
			m.partitions)
	}
	msg.UserId, msg.DeliveryMode = "", amqp.Persistent
	broker.WriteFor(msg.Headers, queue, publisher.Stamp(&msg), msg.Body)
	return msg
}

func lineage(m *Message, from string, replays int64) amqp.Table {
	t := amqp.Table{"count": replays, "from": from}
	if m.Origin.Queue != "" {
		t["queue"], t["died"] = m.Origin.Queue, m.Origin.Time
		t["exchange"], t["key"] = m.ours().RouteBeforeReplay(m.Origin.Exchange, m.Origin.Key)
	}
	if reason := strings.ToValidUTF8(printable.Cut(m.Reason(), maxReason), ""); reason != "" {
		t["reason"] = reason
	}
	if m.Publishing.UserId != "" {
		t["user"] = m.Publishing.UserId
	}
	return t
}

// replayedFrom returns the death before the last replay, by the LineageHeader. Any publisher can send such a header.
func replayedFrom(headers broker.Headers) Death {
	lineage := headers.Lineage()
	var d Death
	d.Queue, _ = lineage["queue"].(string)
	d.Exchange, _ = lineage["exchange"].(string)
	d.Key, _ = lineage["key"].(string)
	d.Reason, _ = lineage["reason"].(string)
	d.Time, _ = lineage["died"].(time.Time)
	return d
}

// replaysOf returns how often the message was replayed.
func replaysOf(headers broker.Headers) int64 {
	return min(max(broker.Integer(headers.Lineage()["count"]), 0), 1<<31) // any publisher can send it
}
