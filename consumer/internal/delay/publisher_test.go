package delay

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
)

// While the broker blocks publishing, no copy is written: the broker would read each of them after the alarm.
func TestBlockedBrokerGetsNoCopies(t *testing.T) {
	c := &Publisher{idle: make(chan *copyChannel, 1), blocked: new(atomic.Bool)}
	c.idle <- nil
	notices, ended := make(chan amqp.Blocking), make(chan struct{})
	go func() {
		defer close(ended)
		alarms.follow(nil, notices, c.blocked)
	}()
	tell := func(active bool) {
		for range 2 { // the second is received once the first has taken effect
			notices <- amqp.Blocking{Active: active}
		}
	}
	tell(true)
	for range copyChannels + 1 {
		if err := c.Send(t.Context(), "strikes.later.1m", "q", amqp.Publishing{}); !errors.Is(err, errBlocked) {
			t.Fatal("a copy while the broker blocks:", err)
		}
	}
	if ch, err := c.publish(t.Context(), &copyChannel{Channel: &amqp.Channel{}}, "strikes.later.1m",
		"q", amqp.Publishing{}); ch == nil || !errors.Is(err, errBlocked) {
		t.Error("an alarm while the channel was opened:", err)
	}
	tell(false)
	if c.blocked.Load() {
		t.Error("still blocked after the alarm")
	}
	close(notices)
	<-ended
}

// TestCopiesFitInAFrame: the broker closes the connection of a frame that is too long. Such a message waits unacked
// instead.
func TestCopiesFitInAFrame(t *testing.T) {
	c := &Publisher{room: 1000, idle: make(chan *copyChannel, 1), blocked: new(atomic.Bool)}
	c.idle <- nil // without a connection
	for name, headers := range map[string]amqp.Table{
		"too long":     {"trace": strings.Repeat("x", 1000)},
		"not sendable": {"trace": struct{}{}},
	} {
		t.Run(name, func(t *testing.T) {
			if err := c.Send(t.Context(), "strikes.delay.1m", "q", amqp.Publishing{Headers: headers}); err == nil {
				t.Error("it was sent")
			}
		})
	}
}
