package bench

import (
	"encoding/binary"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/internal/servertest"
)

func delivery(i int) *amqp.Delivery {
	d := &amqp.Delivery{Body: make([]byte, bodySize)}
	binary.BigEndian.PutUint64(d.Body, uint64(i))
	return d
}

func TestFailingMessagesAreSpreadEvenly(t *testing.T) {
	servertest.Long(t)
	for percent, want := range map[int]int{0: 0, 1: 10, 3: 30, 10: 100, 60: 600, 100: 1000} {
		tally := newTally(1000, percent)
		got, longest, streak := 0, 0, 0
		for i := range 1000 {
			streak++
			if tally.fails(i) {
				longest, streak = max(longest, streak), 0
				got++
			}
		}
		if got != want || got != tally.dead() || percent > 0 && longest > 100/percent+1 {
			t.Errorf("%d %%: %d of 1000 fail, %d are to be dead-lettered, the longest distance to one is %d", percent, got,
				tally.dead(), longest)
		}
	}
}

// TestTallyFindsWhatIsOff has a contestant handle messages as it must not.
func TestTallyFindsWhatIsOff(t *testing.T) {
	servertest.Long(t)
	const n, percent, bad = 100, 1, 99 // message 99 fails always
	for _, tt := range []struct {
		name    string
		ordered bool
		also    func(*tally)
		want    string // in the error; empty: none
	}{
		{"all is well", true, func(*tally) {}, ""},
		{"an attempt too many", false, func(y *tally) { _ = y.handle(delivery(7)) }, "message 7: 2 attempts, want 1"},
		{"one retry too many", false, func(y *tally) { _ = y.handle(delivery(bad)) }, "message 99: 5 attempts, want 4"},
		{"a stranger", false, func(y *tally) {
			_ = y.handle(delivery(n))
		}, "1 deliveries of messages that this trial did not publish"},
		{"a body of another size", false, func(y *tally) { _ = y.handle(&amqp.Delivery{}) }, "1 deliveries"},
		{"out of order", true, func(y *tally) {
			y.next.Store(5)
			y.attempts[3].Store(0)
			_ = y.handle(delivery(3))
		}, "1 attempts out of order"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			y := newTally(n, percent)
			y.ordered = tt.ordered
			for i := range n {
				for y.handle(delivery(i)) != nil && !y.last(delivery(i)) {
				}
				y.settle()
			}
			<-y.done
			tt.also(y)
			err := y.check()
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
}
