package bench

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/publisher"
)

// errFailing is the handler's error for a message that always fails.
var errFailing = errors.New("no such product in the catalogue, again") // about 40 bytes, as reasons are

// tally is the handler of all contestants, and accounts for the messages. Each has its number in its body.
type tally struct {
	percent int  // of the messages that always fail, evenly spread
	ordered bool // whether they must be handled one after the other

	began    atomic.Int64 // when the first was handled, in ns
	attempts []atomic.Int32
	settled  atomic.Int64
	strange  atomic.Int64 // deliveries of messages that were not published by this trial
	next     atomic.Int64 // the first message that is not settled, if all is in order
	early    atomic.Int64 // attempts before the predecessor was settled
	done     chan struct{}
}

func newTally(n, percent int) *tally {
	return &tally{percent: percent, attempts: make([]atomic.Int32, n), done: make(chan struct{})}
}

// messages are the messages that fill the queue.
func (t *tally) messages(queue string) []publisher.Message {
	all := make([]publisher.Message, len(t.attempts))
	for i := range all {
		body := make([]byte, bodySize)
		binary.BigEndian.PutUint64(body, uint64(i))
		all[i] = publisher.Message{Key: queue, Publishing: amqp.Publishing{MessageId: uuid.Must(uuid.NewV7()).String(),
			Body: body}}
	}
	return all
}

func (t *tally) fails(i int) bool { return (i+1)*t.percent/100 > i*t.percent/100 }

// handle is the handler.
func (t *tally) handle(d *amqp.Delivery) error {
	if t.began.Load() == 0 {
		t.began.CompareAndSwap(0, time.Now().UnixNano())
	}
	i, ok := t.number(d)
	if !ok {
		t.strange.Add(1)
		return errFailing
	}
	number := t.attempts[i].Add(1)
	if t.ordered {
		if int64(i) != t.next.Load() {
			t.early.Add(1)
		}
		if !t.fails(i) || number > retries {
			t.next.Store(int64(i) + 1)
		}
	}
	if t.fails(i) {
		return errFailing
	}
	return nil
}

func (t *tally) number(d *amqp.Delivery) (int, bool) {
	if len(d.Body) != bodySize {
		return 0, false
	}
	i := binary.BigEndian.Uint64(d.Body)
	return int(i), i < uint64(len(t.attempts))
}

// last reports whether a message has had all its attempts.
func (t *tally) last(d *amqp.Delivery) bool {
	i, ok := t.number(d)
	return ok && t.attempts[i].Load() > retries
}

// settle counts one more message that was acked or dead-lettered. With the last, done is closed.
func (t *tally) settle() {
	if t.settled.Add(1) == int64(len(t.attempts)) {
		close(t.done)
	}
}

// dead is the number of messages that must be dead-lettered.
func (t *tally) dead() int { return len(t.attempts) * t.percent / 100 }

// check reports a message with a wrong number of attempts.
func (t *tally) check() error {
	for i := range t.attempts {
		want := int32(1)
		if t.fails(i) {
			want = retries + 1
		}
		if got := t.attempts[i].Load(); got != want {
			return fmt.Errorf("message %d: %d attempts, want %d", i, got, want)
		}
	}
	if n := t.strange.Load(); n > 0 {
		return fmt.Errorf("%d deliveries of messages that this trial did not publish", n)
	}
	if n := t.early.Load(); n > 0 {
		return fmt.Errorf("%d attempts out of order", n)
	}
	return nil
}
