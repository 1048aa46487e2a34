package deadletter

import (
	"context"
	"errors"
	"testing"

	"github.com/strikesmq/strikes/counter"
)

// failing are records of a queue, whose messages have all failed again.
type failing struct {
	*fakeRecords
	queue string
}

func (s failing) Lookup(_ context.Context, vhost, queue string,
	generations []counter.Message) (map[counter.Message]counter.Record, error) {
	found := map[counter.Message]counter.Record{}
	for _, m := range generations {
		if queue == s.queue {
			m.VHost = vhost
			found[m] = counter.Record{Failures: 1}
		}
	}
	return found, nil
}

// TestWatch: a replayed message is watched under the name by which its consumer counts it.
func TestWatch(t *testing.T) {
	part := &Message{ID: "m", Queue: "orders", Origin: Death{Queue: "orders.3", Exchange: "orders", Key: "k"}}
	for _, tc := range []struct {
		name, records string
		message       *Message
		fails         bool
	}{
		{"one queue", "orders", &Message{ID: "m", Queue: "orders", Origin: Death{Queue: "orders"}}, true},
		{"a partition, by its exchange", "orders", part, true},
		{"a partition, by its name", "orders", &Message{ID: "m", Queue: "orders", Origin: Death{Queue: "orders.3"}}, true},
		{"another queue", "other", part, false},
	} {
		q := &Queue{Partitioned: "orders", Partitions: 4, Records: failing{queue: tc.records}}
		w := q.watch(Replay{StopAfter: 1})
		w.add(tc.message)
		if err := w.check(t.Context()); errors.Is(err, ErrFailingAgain) != tc.fails {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
}
