package integration

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
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
					return errOf(ch.QueueDelete(q.Name, false, false, false))
				}))
			})
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

// TestReplaysTogether begins replays of one queue at the same moment. One has it. The others find it taken, or the
// messages that the first left.
func TestReplaysTogether(t *testing.T) {
	t.Parallel()
	eachType(t, func(t *testing.T, queue string) {
		const n, rounds, replays = 30, 8, 3
		for range rounds {
			q := withDeadLetters(t, queue, n)
			var results [replays]deadletter.Result
			var errs [replays]error
			var all sync.WaitGroup
			begin := make(chan struct{})
			for i := range replays {
				all.Go(func() {
					<-begin
					results[i], errs[i] = q.Replay(t.Context(), deadletter.Replay{Window: 5})
				})
			}
			close(begin)
			all.Wait()
			done, won := 0, 0
			for i, err := range errs {
				done += results[i].Done
				switch {
				case err == nil:
					won++
				case !errors.Is(err, deadletter.ErrBusy) || results[i].Done != 0:
					t.Errorf("%+v, %v", results[i], err)
				}
			}
			if won == 0 || done != n {
				t.Fatalf("%d of %d went on, %d of %d replayed: %v", won, replays, done, n, errs)
			}
			if diff := cmp.Diff(numbered("m", n), ids(getAll(t, queue))); diff != "" {
				t.Fatal(diff)
			}
		}
	})
}

// TestOperatorsAtOnce begins a second operation in the middle of a first.
func TestOperatorsAtOnce(t *testing.T) {
	t.Parallel()
	eachType(t, func(t *testing.T, queue string) {
		t.Parallel() // most of it is waiting
		q := withDeadLetters(t, queue, 20)
		tried := 0
		r, err := q.Replay(t.Context(), deadletter.Replay{OnMessage: func(*deadletter.Message, error) {
			if tried++; tried != 5 {
				return
			}
			if r, err := q.Replay(t.Context(), deadletter.Replay{}); !errors.Is(err, deadletter.ErrBusy) || r.Done != 0 {
				t.Errorf("the second: %+v, %v", r, err)
			}
			for _, err := range q.Browse(t.Context(), deadletter.Filter{}) {
				if !errors.Is(err, deadletter.ErrBusy) || !strings.Contains(err.Error(), ".strikes-lock") {
					t.Errorf("a look: %v", err)
				}
			}
			if _, err := q.Depth(t.Context()); !errors.Is(err, deadletter.ErrBusy) {
				t.Errorf("a count: %v", err)
			}
		}})
		if err != nil || r.Done != 20 {
			t.Errorf("%+v, %v", r, err)
		}
		if got := ids(getAll(t, queue)); !slices.Equal(got, numbered("m", 20)) {
			t.Errorf("%v", got)
		}
	})
}
