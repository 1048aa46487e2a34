package push

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"

	amqp "github.com/rabbitmq/amqp091-go"
)

// The message may or may not be the cause of some ends of a connection. Such attempts are not counted mostDoubts times
// in a row. Without this bound, a message that kills the endpoint, or stops its replies, would be posted without end.
const (
	mostDoubts  = 3
	mostDoubted = 10_000 // messages; beyond that, all doubts are forgotten
)

// doubts counts such attempts of each message.
type doubts struct {
	mu sync.Mutex
	of map[string]int
}

// more notes a doubtful attempt at a message, and reports whether it is within mostDoubts.
func (o *doubts) more(message string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.of == nil || len(o.of) >= mostDoubted {
		o.of = map[string]int{}
	}
	if o.of[message] >= mostDoubts {
		return false
	}
	o.of[message]++
	return true
}

// forget is called once the endpoint has responded.
func (o *doubts) forget(message string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.of, message)
}

// nameOf returns a name that is unique among the messages of this process.
func nameOf(d amqp.Delivery) string {
	if d.MessageId == "" {
		return fmt.Sprint(d.DeliveryTag)
	}
	return "id " + d.MessageId
}

func isReset(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// pingLost reports whether the connection was closed because the endpoint did not answer an HTTP/2 ping. The network
// may be the cause instead of the message. net/http does not export the error.
func pingLost(err error) bool { return strings.Contains(err.Error(), "http2: client connection lost") }

// tooLarge reports whether a request was not sent because the endpoint takes no headers of that size over HTTP/2.
// net/http does not export the error.
func tooLarge(err error) bool {
	return strings.Contains(err.Error(), "request header list larger than peer's advertised limit")
}
