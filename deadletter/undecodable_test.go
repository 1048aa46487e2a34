package deadletter

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// TestPassesWaitForReturns: the broker takes back the messages of a connection that an undecodable message ended only
// when it notices. Until then the queue seems to have none.
func TestPassesWaitForReturns(t *testing.T) {
	for _, tc := range []struct {
		name  string
		least int
		after time.Duration // two messages are ready
		fails error
		waits time.Duration
	}{
		{"the first pass", 0, time.Hour, nil, 0},
		{"they are there", 2, 0, nil, 0},
		{"they return", 2, 250 * time.Millisecond, nil, 300 * time.Millisecond},
		{"another program took them", 3, 0, nil, lingers},
		{"the connection is lost", 2, time.Hour, amqp.ErrClosed, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			err := awaitReady(t.Context(), tc.least, func() (n int, err error) {
				if time.Since(began) >= tc.after {
					n = 2
				}
				return n, tc.fails
			})
			if waited := time.Since(began); waited != tc.waits || !errors.Is(err, tc.fails) {
				t.Errorf("%s: %v after %v, want %v after %v", tc.name, err, waited, tc.fails, tc.waits)
			}
		})
	}
}
