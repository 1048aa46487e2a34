package deadletter

import (
	"errors"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/internal/broker"
)

func TestHandling(t *testing.T) {
	of := func(kind string, major, minor int) broker.Queue {
		return broker.Queue{
			Version: broker.Version{Major: major, Minor: minor}, Declared: broker.Declared{Type: kind}, PolicyKnown: true,
		}
	}
	quorum := func(major, minor int, limit int64, limited bool) broker.Queue {
		q := of("quorum", major, minor)
		if limited {
			q.Args = amqp.Table{broker.ArgDeliveryLimit: limit}
		}
		return q
	}
	unseen := func(q broker.Queue) broker.Queue {
		q.PolicyKnown = false
		return q
	}
	exclusive := of("", 4, 0)
	exclusive.Exclusive = true
	autoDelete := of("classic", 4, 0)
	autoDelete.AutoDelete = true
	for _, tc := range []struct {
		name       string
		queue      broker.Queue
		take, hold bool
	}{
		{"classic", of("classic", 3, 10), true, true},
		{"not known", of("", 4, 0), false, false},
		{"exclusive", exclusive, false, false},
		{"auto-delete", autoDelete, false, false},
		{"stream", of("stream", 4, 0), false, false},
		{"quorum of no version", quorum(0, 0, 5000, true), false, false},
		{"3.10, no limit: to the tail", quorum(3, 10, 0, false), true, false},
		{"3.10, -1: discarded", quorum(3, 10, -1, true), false, false},
		{"3.10, large", quorum(3, 10, 1<<31-1, true), true, true},
		{"3.10, large, but a policy may say -1", unseen(quorum(3, 10, 1<<31-1, true)), false, false},
		{"4.0, default", quorum(4, 0, 0, false), true, false},
		{"4.0, -1: to the tail", quorum(4, 0, -1, true), true, false},
		{"4.0, 3", quorum(4, 0, 3, true), false, false},
		{"4.0, 0", quorum(4, 0, 0, true), false, false},
		{"4.0, 1000", quorum(4, 0, 1000, true), true, false},
		{"4.0, not large enough", quorum(4, 0, 999_999, true), true, false},
		{"4.0, large", quorum(4, 0, 1_000_000, true), true, true},
		{"4.0, large, but a policy may say less", unseen(quorum(4, 0, 1_000_000, true)), true, false},
		{"4.3, default", quorum(4, 3, 0, false), true, false},
		{"4.3, -1: to the head", quorum(4, 3, -1, true), true, true},
		{"4.3, -1, but a policy may limit it", unseen(quorum(4, 3, -1, true)), true, false},
		{"5.0, -1", quorum(5, 0, -1, true), true, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := handlingOf(broker.Description{Queue: tc.queue})
			if h.Take != tc.take || h.Hold != tc.hold {
				t.Errorf("take %v, hold %v, want %v, %v", h.Take, h.Hold, tc.take, tc.hold)
			}
			if (h.Why == "") != (h.Take && h.Hold) {
				t.Errorf("it says %q", h.Why)
			}
		})
	}
}

// TestWorn: a queue with a low limit is not read. A read of any other stops at a message that was returned half as
// often as the limit allows.
func TestWorn(t *testing.T) {
	const million = 1_000_000
	for _, tt := range []struct {
		limit, returns int64
		read, goOn     bool
	}{
		{0, 1 << 40, true, true}, {million, million/2 - 1, true, true}, {million, million / 2, true, false},
		{million - 1, 0, false, true},
	} {
		q := Queue{Name: "q.dlq", Handling: Handling{Limit: tt.limit, Take: true, Hold: true}}
		for what, got := range map[string]error{"before": q.mayRead(), "after": q.Handling.check(q.Name, tt.returns)} {
			want := what == "before" && !tt.read || what == "after" && !tt.goOn
			if errors.Is(got, ErrWorn) != want || errors.Is(got, ErrUnsafe) != want {
				t.Errorf("limit %d, %s %d returns: %v", tt.limit, what, tt.returns, got)
			}
		}
	}
}
