package consumer

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/queueinfo"
)

// TestCopyOfForeignHeaders: the copy of a message for a delay queue is tied to it. Headers that count as absent on the
// message must not count on its copy.
func TestCopyOfForeignHeaders(t *testing.T) {
	type read struct {
		Generation, Position string
		CopyNumber, Fence    int64
	}
	for name, tc := range map[string]struct {
		id   string // of the message that the headers were written for
		want read
	}{
		"its own":            {"m1", read{"1@1700000000 header:g", "1.1", 3, 1_700_000_001_000_000}},
		"of another message": {"m2", read{"1@1700000000", "", 3, 1_700_000_001_000_000}},
	} {
		from := amqp.Table{GenerationHeader: "g", PositionHeader: "1.1", CopyHeader: int64(2), FenceHeader: int64(9),
			"mine": "kept"}
		from["x-death"] = []any{death("orders", "rejected", int64(1), time.Unix(1_700_000_000, 0))}
		d := &delivery{Delivery: amqp.Delivery{MessageId: "m1", Headers: written(from, tc.id)}, reply: counter.Reply{CopyNumber: 3,
			Fence: 5}}
		d.ours = queueinfo.Read(d.Headers, "orders", "m1", nil)
		d.message.Generation = d.ours.Generation()
		copied := (&session{Consumer: Consumer{Queue: "orders"}}).copyOf(d).Headers
		h := queueinfo.Read(copied, "orders", "m1", nil)
		if diff := cmp.Diff(tc.want, read{h.Generation(), h.Position(), h.CopyNumber(), h.Fence()}); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if copied["mine"] != "kept" || copied["x-death"] != nil {
			t.Errorf("%s: %v", name, copied)
		}
	}
}

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
