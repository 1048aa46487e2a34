package push

import (
	"errors"
	"fmt"
	"net/http/httptrace"
	"net/textproto"
	"sync"
	"sync/atomic"
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

// progress is how far an attempt came, on its last connection.
type progress struct {
	sent     atomic.Bool // the headers, and maybe more
	reused   atomic.Bool // earlier requests used the connection, so the first byte may belong to the previous response
	answered atomic.Bool // the first byte of a response came, which was no 1xx
}

// trace follows a request. GetConn is also called where net/http tries again, because nothing was sent.
func (p *progress) trace() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		GetConn: func(string) {
			p.sent.Store(false)
			p.answered.Store(false)
		},
		GotConn:              func(c httptrace.GotConnInfo) { p.reused.Store(c.Reused) },
		WroteHeaders:         func() { p.sent.Store(true) },
		GotFirstResponseByte: func() { p.answered.Store(true) },
		Got1xxResponse: func(int, textproto.MIMEHeader) error {
			p.answered.Store(false)
			return nil
		},
	}
}
