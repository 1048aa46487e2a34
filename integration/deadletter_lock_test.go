package integration

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/deadletter"
)

// TestLockOfANameThatIsNotASCII: a session that meets another one waits for it, and then returns ErrBusy. The broker's
// refusal of the lock may be longer than 255 bytes. If it is not ASCII, the broker closes the connection with 541
// (4.x), as it does for a message that it cannot convert.
func TestLockOfANameThatIsNotASCII(t *testing.T) {
	t.Parallel()
	vhost := uniqueName(t, "société")
	manage(t, http.MethodPut, "/api/vhosts/"+url.PathEscape(vhost), "{}")
	t.Cleanup(func() { manage(t, http.MethodDelete, "/api/vhosts/"+url.PathEscape(vhost), "") })
	u, err := url.Parse(brokerURL(t))
	need(t, err)
	elsewhere := consumer.Dialer(u.JoinPath(url.PathEscape(vhost)).String(), amqp.Config{})
	for name, tt := range map[string]struct {
		queue string
		dial  func(context.Context) (*amqp.Connection, error)
	}{
		"short": {strings.Repeat("é", 10), dialer(t)},
		"long":  {strings.Repeat("é", 20), dialer(t)},
		"vhost": {"orders", elsewhere},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := deadletter.Queue{Name: tt.queue + ".dlq", Dial: tt.dial, Handling: harmless}
			declare := func(name string, exclusive bool) *amqp.Connection {
				t.Helper()
				conn, err := tt.dial(t.Context())
				need(t, err)
				t.Cleanup(func() { _ = conn.Close() })
				ch, err := conn.Channel()
				need(t, err)
				_, err = ch.QueueDeclare(name, false, false, exclusive, false, amqp.Table{"x-queue-type": "classic"})
				need(t, err)
				return conn
			}
			browse := func() (err error) {
				for _, err = range q.Browse(t.Context(), deadletter.Filter{}) {
				}
				return err
			}
			lock := q.Name + ".strikes-lock"
			declare(q.Name, false)
			t.Cleanup(func() {
				need(t, onChannel(tt.dial, func(ch *amqp.Channel) error {
					_, err := ch.QueueDelete(q.Name, false, false, false)
					return err
				}))
			})
			stray := declare(lock, false)
			if err := browse(); err == nil || !strings.Contains(err.Error(), "is in the way") {
				t.Errorf("a queue that is no lock: %v", err)
			}
			ch, err := stray.Channel()
			need(t, err)
			_, err = ch.QueueDelete(lock, false, false, false)
			need(t, err)
			other := declare(lock, true)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if _, err := q.Replay(ctx, deadletter.Replay{}); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("its context ends: %v", err)
			}
			if err := browse(); !errors.Is(err, deadletter.ErrBusy) || !strings.Contains(err.Error(), "or stop it") {
				t.Errorf("another session has it: %v", err)
			}
			time.AfterFunc(500*time.Millisecond, func() { _ = other.Close() })
			if err := browse(); err != nil {
				t.Errorf("the other session ends meanwhile: %v", err)
			}
		})
	}
}
