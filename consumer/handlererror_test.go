package consumer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	amqp "github.com/rabbitmq/amqp091-go"
)

// hostile is an error and a value with some methods that do harm.
type hostile struct{ in, how string }

func (h *hostile) harm(method string) {
	switch {
	case !strings.Contains(h.in, method):
	case h.how == "exits":
		exitGoroutine()
	default:
		panic(&hostile{h.in, h.how}) // whose methods panic as well
	}
}

func (h *hostile) Error() string                { h.harm("Error"); return "hostile" }
func (h *hostile) Unwrap() error                { h.harm("Unwrap"); return errBoom }
func (h *hostile) Is(error) bool                { h.harm("Is"); return false }
func (h *hostile) As(any) bool                  { h.harm("As"); return false }
func (h *hostile) LogValue() slog.Value         { h.harm("LogValue"); return slog.StringValue("x") }
func (h *hostile) MarshalText() ([]byte, error) { h.harm("MarshalText"); return []byte("x"), nil }

// printed is no error, and prints itself.
type printed struct{ hostile }

func (p *printed) Error(int)                  {}
func (p *printed) String() string             { p.harm("String"); return "printed" }
func (p *printed) Format(f fmt.State, _ rune) { p.harm("Format"); _, _ = io.WriteString(f, "printed") }

// curious asks an event's error for all that an Observer may ask.
func curious(t *testing.T, e Event) {
	if e.Err == nil {
		return
	}
	var p *PanicError
	_ = errors.As(e.Err, &p)
	_ = errors.Is(e.Err, io.EOF)
	slog.New(slog.NewJSONHandler(t.Output(), nil)).Info("event", "event", e)
	slog.New(slog.NewTextHandler(t.Output(), nil)).Info("event", "event", e)
}

func hostileHandlers() map[string]Handler {
	var typedNil *touchyError
	var none error
	handlers := map[string]Handler{
		"panics with nil":             func(context.Context, amqp.Delivery) error { panic(none) },
		"panics with a typed nil":     func(context.Context, amqp.Delivery) error { panic(typedNil) },
		"returns a typed nil":         func(context.Context, amqp.Delivery) error { return typedNil },
		"wraps a typed nil":           func(context.Context, amqp.Delivery) error { return fmt.Errorf("x: %w", typedNil) },
		"panics while it panics":      func(context.Context, amqp.Delivery) error { defer panic("again"); panic("once") },
		"exits while it panics":       func(context.Context, amqp.Delivery) error { defer exitGoroutine(); panic("once") },
		"panics with an odd function": func(context.Context, amqp.Delivery) error { panic(func() {}) },
	}
	for _, in := range []string{"Error", "Unwrap", "Is", "As", "LogValue", "MarshalText", "String", "Format",
		"ErrorUnwrapIsAsLogValueMarshalTextStringFormat"} {
		for _, how := range []string{"panics", "exits"} {
			err := &hostile{in, how}
			of := fmt.Sprintf("an error of which %s %s", in, how)
			handlers["panics with "+of] = func(context.Context, amqp.Delivery) error { panic(err) }
			handlers["panics with a wrapped "+of] = func(context.Context, amqp.Delivery) error { panic(Reject(err)) }
			handlers["returns "+of] = func(context.Context, amqp.Delivery) error { return err }
			handlers["returns a joined "+of] = func(context.Context, amqp.Delivery) error { return errors.Join(errBoom, err) }
			handlers["panics with a value for "+of] = func(context.Context, amqp.Delivery) error {
				panic(&printed{hostile{in, how}})
			}
		}
	}
	return handlers
}

// TestHostileErrors: none of them ends the process, and each is counted once.
func TestHostileErrors(t *testing.T) {
	for name, h := range hostileHandlers() {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench()
				b.Logger = slog.New(slog.NewJSONHandler(t.Output(), nil))
				b.Observer = observe(func(e Event) { *b.events = append(*b.events, string(e.Outcome)); curious(t, e) })
				outcome, err := b.Handle(t.Context(), b.delivery(false), h)
				if outcome != OutcomeRequeue || err != nil {
					t.Errorf("%v, %v", outcome, err)
				}
				b.expect(t, "nack requeue=true", `"" 1+0 marked false`)
				if got := strings.Join(*b.events, " "); got != "retry requeue" {
					t.Errorf("events: %s", got)
				}
				records, _ := b.store.Get(t.Context(), "/", "orders", "m1")
				if records[0].Reason == "" {
					t.Error("no reason was recorded")
				}
			})
		})
	}
}

// TestHostileObserver: the value that an Observer panics with is printed as carefully.
func TestHostileObserver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		b.Logger = slog.New(slog.NewJSONHandler(t.Output(), nil))
		b.Observer = observe(func(Event) { panic(&hostile{"ErrorLogValueMarshalText", "exits"}) })
		if outcome, err := b.Handle(t.Context(), b.delivery(false), boom); outcome != OutcomeRequeue || err != nil {
			t.Errorf("%v, %v", outcome, err)
		}
	})
}

// TestPanicErrorOfAProgram: an error that a program makes, as in a test of its Observer, has a text too.
func TestPanicErrorOfAProgram(t *testing.T) {
	if text := (&PanicError{Value: "no stock"}).Error(); text != "panic: no stock" {
		t.Errorf("%q", text)
	}
}
