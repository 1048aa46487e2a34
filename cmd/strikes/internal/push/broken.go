package push

import (
	"errors"
	"fmt"
	"net/http/httptrace"
	"reflect"
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

// progress is how far an attempt came, on its last connection.
type progress struct {
	mu       sync.Mutex
	sent     bool // the headers, and maybe more
	answered bool // the first byte of a response came
}

// trace follows a request. GetConn is also called where net/http tries again, because nothing was sent.
func (p *progress) trace() *httptrace.ClientTrace {
	locked := func(set func()) {
		p.mu.Lock()
		defer p.mu.Unlock()
		set()
	}
	return &httptrace.ClientTrace{
		GetConn:              func(string) { locked(func() { p.sent, p.answered = false, false }) },
		WroteHeaders:         func() { locked(func() { p.sent = true }) },
		GotFirstResponseByte: func() { locked(func() { p.answered = true }) },
	}
}

// now returns whether the headers were sent, and whether a response began.
func (p *progress) now() (sent, answered bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sent, p.answered
}

// Codes of HTTP/2, RFC 9113 section 7.
const (
	protocolError uint32 = 0x1
	refusedStream uint32 = 0x7
)

// streamCode returns the code that ended a stream of HTTP/2, if the error has one. Errors of net/http convert
// themselves to a struct of these fields.
func streamCode(err error) (code uint32, is bool) {
	var stream streamError
	is = errors.As(err, &stream)
	return stream.Code, is
}

type streamError struct {
	StreamID uint32
	Code     uint32
	Cause    error
}

func (streamError) Error() string { return "a stream of HTTP/2 ended" }

// invalid reports whether the client ended a connection or stream of HTTP/2 because of the bytes that it read.
// net/http does not export its error for a connection, which is the only one that is a number of this kind.
func invalid(err error) bool {
	if code, is := streamCode(err); is {
		return code == protocolError
	}
	for ; err != nil; err = errors.Unwrap(err) {
		if reflect.ValueOf(err).Kind() == reflect.Uint32 {
			return true
		}
	}
	return false
}

// refusedConnection reports whether the endpoint closed an HTTP/2 connection because of the bytes that it read, such
// as headers that are too large. Another request on the same connection may be the cause. net/http does not export the
// error.
func refusedConnection(err error) bool {
	text := err.Error()
	return strings.Contains(text, "http2: server sent GOAWAY") && !strings.Contains(text, "ErrCode=NO_ERROR")
}
