package delay

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"strconv"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/internal/broker"
)

// Fingerprint distinguishes messages with the same id, by their bodies and the seconds of their timestamps.
func Fingerprint(d *amqp.Delivery) string {
	second := int64(0)
	if !d.Timestamp.IsZero() {
		second = d.Timestamp.Unix()
	}
	sum := sha256.New()
	sum.Write(append(strconv.AppendInt(nil, second, 10), '\n'))
	sum.Write(d.Body)
	return hex.EncodeToString(sum.Sum(nil)[:8])
}

// Fields are those of a copy that its message does not have.
type Fields struct {
	Queue      string // that the copy returns to
	Generation string
	CopyNumber int64 // its number
	Fence      int64 // 0: none
}

// Copy returns the message that waits instead of d. It keeps the properties and headers of d, except for those that
// the broker would act on or refuse. It drops x-death and the like, because RabbitMQ 3.10 would count on in them. It
// drops CC and BCC, by which d was routed, and the expiration, which began with the first publishing. It drops the
// user, which must be that of the connection.
func Copy(d *amqp.Delivery, ours broker.Headers, f Fields) amqp.Publishing {
	headers := ours.Copy()
	maps.DeleteFunc(headers, func(name string, _ any) bool { return broker.OfTheBroker(name) })
	headers[broker.CopyHeader] = f.CopyNumber
	delete(headers, broker.CopyGenerationHeader)
	if broker.ReadKnownHeaders(headers, f.Queue, false).Generation() != f.Generation {
		headers[broker.CopyGenerationHeader] = f.Generation
	}
	delete(headers, broker.CopyExchangeHeader)
	delete(headers, broker.CopyKeyHeader)
	if d.Exchange != "" || d.RoutingKey != f.Queue {
		headers[broker.CopyExchangeHeader], headers[broker.CopyKeyHeader] = d.Exchange, d.RoutingKey
	}
	if f.Fence > 0 {
		headers[broker.FenceHeader] = f.Fence
	}
	broker.WriteFor(headers, f.Queue, d.MessageId, d.Body)
	return amqp.Publishing{
		Headers: headers, Body: d.Body, DeliveryMode: amqp.Persistent, MessageId: d.MessageId, Priority: d.Priority,
		Type: d.Type, AppId: d.AppId,
		ContentType: d.ContentType, ContentEncoding: d.ContentEncoding, CorrelationId: d.CorrelationId, ReplyTo: d.ReplyTo,
		Timestamp: d.Timestamp,
	}
}
