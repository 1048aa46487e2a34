package publisher

import (
	"fmt"
	"math"
	"strconv"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// maxShort is the longest AMQP short string, in bytes.
const maxShort = 255

// check refuses a message that would close the channel, or the connection: amqp091-go closes it when it fails to encode
// a frame. It returns the size of the content header frame's payload in bytes.
func check(exchange, key string, msg *amqp.Publishing) (headerSize int, err error) {
	shorts := [...]struct{ name, value string }{
		{"exchange", exchange}, {"routing key", key}, // both are in another frame
		{"MessageId", msg.MessageId}, {"ContentType", msg.ContentType}, {"ContentEncoding", msg.ContentEncoding},
		{"CorrelationId", msg.CorrelationId}, {"ReplyTo", msg.ReplyTo}, {"Expiration", msg.Expiration},
		{"Type", msg.Type}, {"UserId", msg.UserId}, {"AppId", msg.AppId},
	}
	size := 2 + 2 + 8 + 2 // class, weight, body size, flags
	for i, s := range shorts {
		if len(s.value) > maxShort {
			return 0, fmt.Errorf("%w: the %s must be at most %d bytes long, got %d", ErrInvalid, s.name, maxShort, len(s.value))
		}
		if i >= 2 && s.value != "" {
			size += 1 + len(s.value)
		}
	}
	if msg.DeliveryMode > 0 {
		size++
	}
	if msg.Priority > 0 {
		size++
	}
	if !msg.Timestamp.IsZero() {
		size += 8
	}
	if msg.DeliveryMode > amqp.Persistent {
		return 0, fmt.Errorf("%w: DeliveryMode must be amqp.Persistent or amqp.Transient, got %d", ErrInvalid,
			msg.DeliveryMode)
	}
	if msg.Expiration != "" {
		if _, err := strconv.ParseUint(msg.Expiration, 10, 64); err != nil {
			return 0, fmt.Errorf("%w: Expiration must be a whole number of milliseconds, got %q", ErrInvalid, msg.Expiration)
		}
	}
	headers, err := tableSize(msg.Headers, 0)
	switch {
	case err != nil:
		return 0, fmt.Errorf("%w: header %w", ErrInvalid, err)
	case len(msg.Headers) > 0:
		size += headers
	}
	return size, nil
}

// amqp091-go v1.16.0 closes its connection when it receives tables beyond these limits, on each delivery and
// redelivery. Such a message could be published but not consumed.
const (
	maxDepth    = 32
	maxElements = 8192
)

// tableSize returns how many bytes t takes on the wire, or why it cannot be sent.
func tableSize(t amqp.Table, depth int) (int, error) {
	if err := checkContainer(len(t), depth); err != nil {
		return 0, err
	}
	size := 4
	for key, value := range t {
		if len(key) > maxShort {
			return 0, fmt.Errorf("key %.40q… must be at most %d bytes long, got %d", key, maxShort, len(key))
		}
		n, err := fieldSize(value, depth)
		if err != nil {
			return 0, fmt.Errorf("%q: %w", key, err)
		}
		size += 1 + len(key) + n
	}
	return size, nil
}

func arraySize(a []any, depth int) (int, error) {
	if err := checkContainer(len(a), depth); err != nil {
		return 0, err
	}
	size := 4
	for i, value := range a {
		n, err := fieldSize(value, depth)
		if err != nil {
			return 0, fmt.Errorf("element %d: %w", i, err)
		}
		size += n
	}
	return size, nil
}

func checkContainer(elements, depth int) error {
	switch {
	case depth > maxDepth:
		return fmt.Errorf("nested deeper than the %d levels that an amqp091-go consumer can read", maxDepth)
	case elements > maxElements:
		return fmt.Errorf("%d elements, more than the %d that an amqp091-go consumer can read", elements, maxElements)
	}
	return nil
}

// fieldSize returns the bytes of a value and its type.
func fieldSize(value any, depth int) (int, error) {
	switch v := value.(type) {
	case nil:
		return 1, nil
	case bool, byte, int8:
		return 2, nil
	case int16, uint16:
		return 3, nil
	case int:
		if v < math.MinInt32 || v > math.MaxInt32 {
			// the library would drop the other bits silently
			return 0, fmt.Errorf("int %d does not fit in 32 bits; use an int64", v)
		}
		return 5, nil
	case int32, uint32:
		return 5, nil
	case float32:
		return 5, finite(float64(v))
	case float64:
		return 9, finite(v)
	case int64, time.Time:
		return 9, nil
	case amqp.Decimal:
		return 6, nil
	case string:
		return 5 + len(v), nil
	case []byte:
		return 5 + len(v), nil
	case amqp.Table:
		n, err := tableSize(v, depth+1)
		return 1 + n, err
	case []any:
		n, err := arraySize(v, depth+1)
		return 1 + n, err
	}
	return 0, fmt.Errorf("a value of type %T has no AMQP encoding (see amqp.Table)", value)
}

func finite(f float64) error {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return fmt.Errorf("RabbitMQ cannot decode the number %v", f)
	}
	return nil
}
