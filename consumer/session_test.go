package consumer

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/consumer/internal/acks"
)

// quietWire is a channel on which every request succeeds.
type quietWire struct{ calls *[]string }

func (w quietWire) Cancel(string, bool) error { *w.calls = append(*w.calls, "cancel"); return nil }
func (w quietWire) Qos(int, int, bool) error  { return nil }

func (w quietWire) Consume(string, string, bool, bool, bool, bool, amqp.Table) (<-chan amqp.Delivery, error) {
	*w.calls = append(*w.calls, "consume")
	return nil, nil
}
func (w quietWire) Close() error { *w.calls = append(*w.calls, "close"); return nil }

// served runs a session on deliveries of n messages, until ctx is done or it ends.
func served(ctx context.Context, b bench, c Consumer, n int) (calls []string, err error) {
	b.Observer = nil
	var ids []string
	for i := range n {
		ids = append(ids, fmt.Sprint("m", i))
	}
	err = b.session(c).serve(ctx, &link{channel: quietWire{&calls}, deliveries: b.queued(ids...)})
	return calls, err
}

func TestStopWaitsForHandlers(t *testing.T) {
	for _, tc := range []struct {
		name     string
		handler  time.Duration
		prefetch int
		ordered  bool
		settled  string
		calls    string
	}{
		{"done in time", time.Second, 10, false, "ack multiple=false", "close"},
		{"many acks may be under way", time.Second, 100, false, "ack multiple=false", "cancel close"},
		{"many acks, in order", time.Second, 100, true, "ack multiple=false", "consume cancel close"},
		{"not done in time", time.Minute, 10, false, "", "close"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench()
				ctx, stop := context.WithCancel(t.Context())
				c := Consumer{Prefetch: tc.prefetch, Ordered: tc.ordered, DrainTimeout: 10 * time.Second,
					Handler: func(ctx context.Context, _ amqp.Delivery) error {
						stop()
						select {
						case <-time.After(tc.handler):
							return nil
						case <-ctx.Done():
							return ctx.Err()
						}
					}}
				calls, err := served(ctx, b, c, 5)
				if err != nil {
					t.Errorf("the session ended with %v", err)
				}
				if got := strings.Join(calls, " "); got != tc.calls {
					t.Errorf("calls: %s, want %s", got, tc.calls)
				}
				b.expect(t, tc.settled, "none")
			})
		})
	}
}

// TestASettlementThatHangsClosesTheChannel: a connection that blocks takes no ack, and the session does not wait for
// it. The session closes its channel only, because the connection may serve other sessions. Then the broker takes the
// delivery back.
func TestASettlementThatHangsClosesTheChannel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, slow := unobserved(), make(chan struct{})
		d := b.delivery(false)
		d.Acknowledger = slowAck{b.acks, slow}
		deliveries := make(chan amqp.Delivery, 1)
		deliveries <- d
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		var calls []string
		err := b.session(Consumer{Handler: ok, DrainTimeout: time.Second}).serve(ctx,
			&link{channel: quietWire{&calls}, deliveries: deliveries})
		if !errors.Is(err, ErrUncleanStop) || strings.Join(calls, " ") != "close" {
			t.Errorf("calls %q, the session ended with %v", calls, err)
		}
		close(slow)
	})
}

// unobserved is a bench that notes no events, which many goroutines may make.
func unobserved() bench {
	b := newBench()
	b.Observer = nil
	return b
}

// TestDeadLettersWaitForALeader: after a start of the broker nothing is dead-lettered until a dead-letter queue can
// take it.
func TestDeadLettersWaitForALeader(t *testing.T) {
	const acked, both = "ack multiple=false", "ack multiple=false, nack requeue=false"
	for _, tc := range []struct {
		name    string
		stop    time.Duration
		settled string
	}{
		{"it waits", electing + time.Second, both},
		{"a stop does not", electing - time.Second, acked}, // the message comes back, and its record says the rest
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, from := unobserved(), time.Now().Add(electing)
				c := Consumer{Queue: "orders", Handler: func(_ context.Context, d amqp.Delivery) error {
					if d.MessageId == "m1" {
						return Reject(errBoom)
					}
					return nil
				}}
				ctx, stop := context.WithTimeout(t.Context(), tc.stop)
				defer stop()
				go func() {
					time.Sleep(electing - time.Millisecond)
					if got := b.acks.String(); got != acked {
						t.Errorf("settled before %v: %s", electing, got)
					}
				}()
				s := b.session(c)
				s.deadLettersFrom = from
				wire := quietWire{new([]string)}
				if err := s.serve(ctx, &link{channel: wire, deliveries: b.queued("m1", "m2")}); err != nil {
					t.Errorf("the session ended with %v", err)
				}
				time.Sleep(electing)
				b.expect(t, tc.settled, `"exhausted" 1+0 marked false`)
			})
		})
	}
}

// closingWire is a channel on which nothing can be settled once it is closed.
type closingWire struct {
	quietWire
	acks *channel
}

func (w closingWire) Close() error {
	w.acks.mu.Lock()
	defer w.acks.mu.Unlock()
	w.acks.fail = amqp.ErrClosed
	return nil
}

// TestTheBrokersCancelComesBeforeWhatWaits: a settlement that was decided just before it, and waits for its run, is
// not sent.
func TestTheBrokersCancelComesBeforeWhatWaits(t *testing.T) {
	for name, h := range map[string]Handler{
		"an ack": ok, "a nack": func(context.Context, amqp.Delivery) error { return Reject(errBoom) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := unobserved()
				cancelled := make(chan string, 1)
				time.AfterFunc(acks.Tick/2, func() { cancelled <- "tag" })
				s := b.session(Consumer{Prefetch: 100, Handler: h})
				err := s.serve(t.Context(), &link{channel: closingWire{quietWire{new([]string)}, b.acks},
					deliveries: b.queued("m1"), cancelled: cancelled})
				if got := b.acks.String(); !errors.Is(err, errCancelled) || got != "" {
					t.Errorf("settled %q, the session ended with %v", got, err)
				}
			})
		})
	}
}

func TestNothingIsSettledAfterTheBrokersCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		cancelled := make(chan string, 1)
		var calls []string
		c := Consumer{Queue: "orders", Handler: func(ctx context.Context, _ amqp.Delivery) error {
			cancelled <- "tag"
			<-ctx.Done()
			if got := strings.Join(calls, " "); got != "close" {
				t.Errorf("calls before the handler was cancelled: %q, want the channel closed", got)
			}
			return nil
		}}
		s := b.session(c)
		if err := s.serve(t.Context(), &link{channel: quietWire{&calls}, deliveries: b.queued("m1"),
			cancelled: cancelled}); !errors.Is(err, errCancelled) {
			t.Errorf("the session ended with %v", err)
		}
	})
}
