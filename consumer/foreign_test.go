package consumer

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// TestForeignHeadersAreLogged: a flood of messages with copied headers writes one line a minute.
func TestForeignHeadersAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		b := newBench()
		b.Queue, b.Logger = t.Name(), slog.New(slog.NewTextHandler(&log, nil))
		handle := func(id string) {
			d := b.delivery(false)
			d.MessageId, d.Headers = id, written(amqp.Table{GenerationHeader: "g"}, "m2")
			if outcome, err := b.Handle(t.Context(), d, ok); outcome != OutcomeAck || err != nil {
				t.Fatal(outcome, err)
			}
		}
		for range 100 {
			handle("m1")
		}
		time.Sleep(foreignPause)
		handle("m3")
		handle("m4")
		lines := strings.Split(strings.TrimSpace(log.String()), "\n")
		if len(lines) != 2 || !strings.Contains(lines[0], "level=WARN") || !strings.Contains(lines[0], "id=m1") ||
			!strings.Contains(lines[1], "id=m3") {
			t.Errorf("the log: %s", log.String())
		}
	})
}
