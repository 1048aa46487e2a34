package deadletter

import (
	"errors"
	"net"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
)

// TestRequestToAClosedSocket has a request fail between the close of the connection and the news of it. The error is
// the broker's, which names the remedy, and not that of the socket.
func TestRequestToAClosedSocket(t *testing.T) {
	undecodable := &amqp.Error{Code: amqp.InternalError, Reason: "the message cannot be converted"}
	for name, err := range map[string]error{
		"closed channel": amqp.ErrClosed,
		"closed socket":  &net.OpError{Op: "write", Net: "tcp", Err: net.ErrClosed},
	} {
		s := &session{queue: "q", closed: make(chan *amqp.Error, 1)}
		s.closed <- undecodable
		if got := s.cause(err); !errors.Is(got, undecodable) {
			t.Errorf("%s: %v", name, got)
		}
	}
	if other := errors.New("other"); !errors.Is((&session{closed: make(chan *amqp.Error)}).cause(other), other) {
		t.Error("another error was taken for a close")
	}
}
