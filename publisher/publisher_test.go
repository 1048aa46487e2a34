package publisher

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	amqp "github.com/rabbitmq/amqp091-go"
	"go.uber.org/goleak"

	"github.com/strikesmq/strikes/internal/servertest"
)

var need = servertest.Need

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestNewRefuses(t *testing.T) {
	dial := func(context.Context) (*amqp.Connection, error) { return nil, errors.New("no") }
	for says, call := range map[string]func() (*Publisher, error){
		"dial is nil":                    func() (*Publisher, error) { return New(nil, nil) },
		"for the default, got -1":        func() (*Publisher, error) { return New(dial, &Options{Window: -1}) },
		"Window must be 1 to 1000000":    func() (*Publisher, error) { return New(dial, &Options{Window: math.MaxInt}) },
		"or 0 for the default, got -1ns": func() (*Publisher, error) { return New(dial, &Options{ConfirmTimeout: -1}) },
	} {
		var fe *FieldError
		if _, err := call(); err == nil || !strings.Contains(err.Error(), says) ||
			errors.As(err, &fe) == (says == "dial is nil") {
			t.Errorf("got %v, want %q", err, says)
		}
	}
}

// The callers share one dial at a time, and its backoff.
func TestPublishersDialOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dials := 0
		p, err := New(func(context.Context) (*amqp.Connection, error) {
			dials++
			return nil, errors.New("no listener")
		}, nil)
		need(t, err)
		if synctest.Wait(); dials != 0 {
			t.Error("dialled with nothing to publish")
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var calls sync.WaitGroup
		for range 64 {
			calls.Go(func() {
				_, err := p.Publish(ctx, "", "q", amqp.Publishing{})
				var e *Error
				if !errors.As(err, &e) || e.Undecided || !errors.Is(err, context.DeadlineExceeded) ||
					!strings.Contains(err.Error(), "no listener") {
					t.Errorf("got %v", err)
				}
			})
		}
		calls.Wait()
		// The backoff grows to 5 s, half of it more or less by chance.
		if dials < 8 || dials > 32 {
			t.Errorf("%d dials in a minute", dials)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestCloseEndsADial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, err := New(func(ctx context.Context) (*amqp.Connection, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}, nil)
		need(t, err)
		failed := make(chan error)
		go func() {
			_, err := p.Publish(t.Context(), "", "q", amqp.Publishing{})
			failed <- err
		}()
		synctest.Wait()
		go p.Close()
		var e *Error
		if err := <-failed; !errors.Is(err, ErrClosed) || !errors.As(err, &e) || e.Undecided {
			t.Errorf("got %v", err)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		if _, err := p.Publish(t.Context(), "", "q", amqp.Publishing{}); !errors.Is(err, ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	})
}

// A full window holds callers back, and their ctx lets them go.
func TestWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, err := New(func(ctx context.Context) (*amqp.Connection, error) {
			return nil, errors.New("no")
		}, &Options{Window: 2})
		need(t, err)
		defer p.Close()
		ctx, cancel := context.WithCancel(t.Context())
		var calls sync.WaitGroup
		for range 5 {
			calls.Go(func() {
				if _, err := p.Publish(ctx, "", "q", amqp.Publishing{}); !errors.Is(err, context.Canceled) {
					t.Errorf("got %v", err)
				}
			})
		}
		if synctest.Wait(); len(p.slots) != 2 {
			t.Errorf("%d messages in a window of 2", len(p.slots))
		}
		cancel()
		calls.Wait()
		if n := len(p.ledger.inState(queued)); n != 0 {
			t.Errorf("%d messages left in the ledger", n)
		}
	})
}

func TestStamp(t *testing.T) {
	var msg amqp.Publishing
	id := Stamp(&msg)
	if u, err := uuid.Parse(id); err != nil || u.Version() != 7 || msg.MessageId != id {
		t.Errorf("stamped %q, returned %q; want one UUIDv7", msg.MessageId, id)
	}
	if again := Stamp(&msg); again != id || msg.MessageId != id {
		t.Errorf("a second Stamp changed %q to %q", id, msg.MessageId)
	}
	if msg.DeliveryMode != 0 {
		t.Errorf("Stamp set DeliveryMode %d", msg.DeliveryMode)
	}
}

func TestDeliveryMode(t *testing.T) {
	for given, want := range map[uint8]uint8{0: amqp.Persistent, amqp.Transient: amqp.Transient,
		amqp.Persistent: amqp.Persistent} {
		if got := newOutgoing("", "q", &amqp.Publishing{DeliveryMode: given}).msg.DeliveryMode; got != want {
			t.Errorf("mode %d is sent as %d, want %d", given, got, want)
		}
	}
}
