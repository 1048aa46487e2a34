package publisher

import (
	"context"
	"log/slog"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// stalled is a log handler that blocks until goOn is closed, like a pipe whose reader has stopped.
type stalled struct {
	slog.Handler
	goOn chan struct{}
}

func (h stalled) Enabled(context.Context, slog.Level) bool { return true }

func (h stalled) Handle(context.Context, slog.Record) error {
	<-h.goOn
	return nil
}

// TestAStalledLogHoldsUpNoReturn: the library drops a basic.return that is not taken for 5 s. Then its message would
// count as published.
func TestAStalledLogHoldsUpNoReturn(t *testing.T) {
	log := stalled{goOn: make(chan struct{})}
	defer close(log.goOn)
	s := &session{p: &Publisher{opts: Options{Logger: slog.New(log)}}}
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.block(amqp.Blocking{Active: true, Reason: "memory"})
		s.block(amqp.Blocking{})
	}()
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		t.Error("the session waits for its log")
	}
}
