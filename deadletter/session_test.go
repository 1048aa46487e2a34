package deadletter

import (
	"errors"
	"net"
	"strings"
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

// TestLostBeforeItBegins: a connection that ends while a session begins is lost as one that ends later, so a program
// may try again. The broker's other replies close the channel alone.
func TestLostBeforeItBegins(t *testing.T) {
	for _, tt := range []struct {
		err  *amqp.Error
		lost bool
	}{
		{amqp.ErrClosed, true},
		{&amqp.Error{Code: amqp.ConnectionForced, Reason: "CONNECTION_FORCED", Server: true}, true},
		{&amqp.Error{Code: amqp.InternalError, Reason: "INTERNAL_ERROR", Server: true}, true}, // no message was asked for
		{&amqp.Error{Code: amqp.NotFound, Reason: "NOT_FOUND", Server: true, Recover: true}, false},
		{&amqp.Error{Code: amqp.ResourceLocked, Reason: "RESOURCE_LOCKED", Server: true, Recover: true}, false},
		{&amqp.Error{Code: amqp.AccessRefused, Reason: "ACCESS_REFUSED", Server: true, Recover: true}, false},
	} {
		if err := explain("orders.dlq", tt.err); errors.Is(err, ErrInterrupted) != tt.lost ||
			!strings.Contains(err.Error(), "orders.dlq") || errors.Is(err, ErrUndecodable) {
			t.Errorf("%v: %v", tt.err, err)
		}
	}
}
