package delay

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/consumer/internal/bound"
	"github.com/strikesmq/strikes/internal/poll"
	"github.com/strikesmq/strikes/internal/proxy"
	"github.com/strikesmq/strikes/internal/servertest"
)

func TestMain(m *testing.M) { os.Exit(servertest.Run(m)) }

// TestLateChannelIsClosed: a channel for a copy that was given up meanwhile does not stay open. In an alarm the broker
// opens channels only afterwards.
func TestLateChannelIsClosed(t *testing.T) {
	servertest.Long(t)
	at, err := amqp.ParseURI(servertest.BrokerURL(t))
	servertest.Need(t, err)
	way, err := proxy.New(t.Context(), net.JoinHostPort(at.Host, strconv.Itoa(at.Port)))
	servertest.Need(t, err)
	defer way.Close()
	conn, err := amqp.DialConfig(at.String(), amqp.Config{ChannelMax: 1,
		Dial: func(string, string) (net.Conn, error) { return net.Dial("tcp", way.Addr()) }})
	servertest.Need(t, err)
	defer conn.Close()
	c := NewPublisher(conn)
	defer c.Close()
	way.Delay(4 * time.Second) // either way
	if err := c.Send(t.Context(), "amq.fanout", "q", amqp.Publishing{}); !errors.Is(err, bound.ErrNoReply) {
		t.Error("while the broker is slow:", err)
	}
	way.Delay(0)
	const what = "the only channel that the connection may have"
	servertest.Need(t, poll.Until(t.Context(), 20*time.Second, what, func() error {
		err := c.Send(t.Context(), "amq.fanout", "q", amqp.Publishing{})
		if err == nil || !strings.Contains(err.Error(), "NO_ROUTE") {
			return fmt.Errorf("the copy is not returned: %w", err)
		}
		return nil
	}))
}

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
