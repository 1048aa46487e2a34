package push

import (
	"net/http"
	"strconv"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/internal/broker"
)

// headers are those of the request for a message. A name of AMQP may hold any bytes, so these are percent-encoded.
func headers(queue string, d amqp.Delivery, a consumer.Attempt) http.Header {
	h := http.Header{}
	set := func(name, value string) {
		if value != "" {
			h.Set(name, value)
		}
	}
	set("User-Agent", "strikes")
	set("Content-Type", safe(d.ContentType))
	set("Content-Encoding", safe(d.ContentEncoding))
	set("Strikes-Message-Id", encode(d.MessageId))
	set("Strikes-Queue", encode(queue))
	set("Strikes-Exchange", encode(d.Exchange))
	set("Strikes-Routing-Key", encode(d.RoutingKey))
	set("Strikes-Generation", encode(broker.ReadHeaders(d.Headers, queue, d.MessageId, d.Body).Generation()))
	set("Strikes-Attempt", strconv.Itoa(a.Number))
	set("Strikes-Limit", strconv.Itoa(a.Last))
	set("Strikes-Token", a.Token)
	set("Strikes-Fence", strconv.FormatInt(a.Fence, 10))
	set("Strikes-Redelivered", strconv.FormatBool(d.Redelivered))
	for _, name := range []string{"traceparent", "tracestate"} {
		if value := text(d.Headers[name]); len(value) <= maxTrace {
			set(name, safe(value))
		}
	}
	return h
}

// maxTrace is the length of a tracestate that every system passes on, in bytes:
// https://www.w3.org/TR/trace-context/#tracestate-limits. A longer one could make the headers larger than the endpoint
// accepts.
const maxTrace = 512

// text is a header of a message that is a text.
func text(value any) string {
	switch v := value.(type) {
	case string:
		return v
	case []byte:
		return string(v)
	}
	return ""
}

// safe returns a value that can be a header's, else nothing.
func safe(value string) string {
	for i := range len(value) {
		if b := value[i]; b < ' ' || b > '~' {
			return ""
		}
	}
	return value
}

const hex = "0123456789ABCDEF"

// encode percent-encodes what is no printable character of ASCII, spaces, and % itself, so that decoding always gives
// the value.
func encode(value string) string {
	var b strings.Builder
	for i := range len(value) {
		if c := value[i]; c <= ' ' || c > '~' || c == '%' {
			b.Write([]byte{'%', hex[c>>4], hex[c&15]})
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}
