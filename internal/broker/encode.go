package broker

import (
	"fmt"
	"math"
	"strconv"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// maxShort is the longest AMQP short string, in bytes.
const maxShort = 255

// maxExpiration is ten years, in ms. A broker closes the channel over a longer one (3.10.8, 4.3.6).
const maxExpiration = 10 * 365 * 24 * 60 * 60 * 1000

const (
	// frameOverhead is the size of a frame without its payload, in bytes.
	frameOverhead = 8

	// addedLater is room for headers that brokers and replays add, such as x-death and delivery counts. A message whose
	// headers outgrow the frame ends the connection of each consumer that receives it, and blocks its queue (4.3.6).
	addedLater = 8 << 10
)

// HeaderRoom returns how many bytes properties and headers of a message may take, by the size of a connection's frames.
// It returns 0 if there is no limit.
func HeaderRoom(frameSize int) int {
	if frameSize <= 0 {
		return 0
	}
	return frameSize - frameOverhead - min(addedLater, frameSize/4)
}

// HeaderSize returns the size of a message's properties and headers in bytes. It returns an error if sending the
// message would close the channel or the connection: amqp091-go closes that when it fails to encode a frame.
func HeaderSize(exchange, key string, msg *amqp.Publishing) (bytes int, err error) {
	shorts := [...]struct{ name, value string }{
		{"exchange", exchange}, {"routing key", key}, // both are in another frame
		{"MessageId", msg.MessageId}, {"ContentType", msg.ContentType}, {"ContentEncoding", msg.ContentEncoding},
		{"CorrelationId", msg.CorrelationId}, {"ReplyTo", msg.ReplyTo}, {"Expiration", msg.Expiration},
		{"Type", msg.Type}, {"UserId", msg.UserId}, {"AppId", msg.AppId},
	}
	size := 2 + 2 + 8 + 2 // class, weight, body size, flags
	for i, s := range shorts {
		if len(s.value) > maxShort {
			return 0, fmt.Errorf("the %s must be at most %d bytes long, got %d", s.name, maxShort, len(s.value))
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
		return 0, fmt.Errorf("DeliveryMode must be amqp.Persistent or amqp.Transient, got %d", msg.DeliveryMode)
	}
	if msg.Expiration != "" {
		if ms, err := strconv.ParseUint(msg.Expiration, 10, 64); err != nil || ms > maxExpiration {
			return 0, fmt.Errorf("Expiration must be 0 to %d whole milliseconds, got %q", maxExpiration, msg.Expiration)
		}
	}
	headers, err := tableSize(msg.Headers, 0)
	switch {
	case err != nil:
		return 0, fmt.Errorf("header %w", err)
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
