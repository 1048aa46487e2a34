package broker

import (
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// TestUnanswered: a queue that does not answer is told apart from a message that ends the connection.
func TestUnanswered(t *testing.T) {
	late, soon := time.Now().Add(-5*time.Second), time.Now()
	gaveUp := &amqp.Error{Code: amqp.InternalError, Reason: "INTERNAL_ERROR", Server: true}
	hungUp := &amqp.Error{Code: amqp.ChannelError, Reason: "channel/connection is not open"}
	syntax := &amqp.Error{Code: amqp.FrameError, Reason: amqp.ErrSyntax.Reason}
	for _, tc := range []struct {
		name   string
		closed *amqp.Error
		asked  time.Time
		want   bool
	}{
		{"the broker gives up", gaveUp, late, true},
		{"the client gives up", hungUp, late, true},
		{"a message that the broker cannot convert", gaveUp, soon, false},
		{"a message that the client cannot decode, after a slow store", syntax, late, false},
		{"the queue has answered", gaveUp, time.Time{}, false},
		{"the broker shuts down", &amqp.Error{Code: amqp.ConnectionForced, Server: true}, late, false},
		{"nothing is closed", nil, late, false},
	} {
		if got := Unanswered(tc.closed, tc.asked); got != tc.want {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
	}
}
