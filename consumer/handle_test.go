package consumer

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/counter"
)

func TestSettlementThatCannotBeSent(t *testing.T) {
	b := newBench()
	b.acks.fail = amqp.ErrClosed
	outcome, err := b.Handle(t.Context(), b.delivery(false), ok)
	if outcome != OutcomeLeave || !errors.Is(err, ErrSettlement) || !errors.Is(err, amqp.ErrClosed) {
		t.Errorf("%v, %v", outcome, err)
	}
}

// wrapped is a Counter of a comparable type with a value that is not, so consumers could not share its pauses.
type wrapped struct {
	Counter
	labels any
}

func TestHandleRefusesFields(t *testing.T) {
	var absent *counter.Counter
	for name, change := range map[string]func(*Consumer){
		"Queue":                    func(s *Consumer) { s.Queue = "" },
		"Counter":                  func(s *Consumer) { s.Counter = nil },
		"Counter (nil)":            func(s *Consumer) { s.Counter = absent },
		"Counter (not comparable)": func(s *Consumer) { s.Counter = wrapped{s.Counter, []string{"a"}} },
		"MaxRetries":               func(s *Consumer) { s.MaxRetries = 1001 },
		"Retry":                    func(s *Consumer) { s.Retry = 3 },
		"Isolation":                func(s *Consumer) { s.Isolation = -1 },
		"ConsumerTimeout":          func(s *Consumer) { s.ConsumerTimeout = time.Second },
		"ConsumerTimeout (long)":   func(s *Consumer) { s.ConsumerTimeout, s.HandlerTimeout = math.MaxInt64, -1 },
		"HandlerTimeout":           func(s *Consumer) { s.HandlerTimeout = time.Hour },
		"Ordered":                  func(s *Consumer) { s.Ordered = true },
		"HoldLanes":                func(s *Consumer) { s.HoldLanes = true },
		"Lane":                     func(s *Consumer) { s.Lane = func(amqp.Delivery) string { return "" } },
		"HandlerTimeout (default)": func(s *Consumer) { s.ConsumerTimeout = 5 * time.Minute },
	} {
		b := newBench()
		change(b.Consumer)
		field, _, _ := strings.Cut(name, " ")
		var fe *FieldError
		if outcome, err := b.Handle(t.Context(), b.delivery(false), ok); outcome != OutcomeLeave || !errors.As(err, &fe) ||
			fe.Field != field {
			t.Errorf("%s: %v, %v", name, outcome, err)
		}
		b.expect(t, "", "none")
	}
	b := newBench()
	if outcome, err := b.Handle(t.Context(), b.delivery(false), nil); outcome != OutcomeLeave || err == nil {
		t.Errorf("nil handler: %v, %v", outcome, err)
	}
}

// TestHandleNeedsAnAcknowledger: a delivery that cannot be settled is refused before the handler runs.
func TestHandleNeedsAnAcknowledger(t *testing.T) {
	b := newBench()
	d := b.delivery(false)
	d.Acknowledger = nil
	if outcome, err := b.Handle(t.Context(), d, ok); outcome != OutcomeLeave || err == nil ||
		!strings.Contains(err.Error(), "no Acknowledger") {
		t.Errorf("%v, %v", outcome, err)
	}
}
