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

// errFailing is what the handler returns for a message that always fails.
var errFailing = errors.New("no such product in the catalogue, again") // about 40 bytes, as reasons are

// tally is the handler of all contestants, and the account of what became of the messages. Each has its number in its body.
type tally struct {
	percent int  // of the messages that fail always, evenly spread
	ordered bool // whether they must be handled one after the other

	began   atomic.Int64 // when the first was handled, in ns
	runs    []atomic.Int32
	settled atomic.Int64
	strange atomic.Int64 // deliveries of messages that were never published
	next    atomic.Int64 // the first message that is not done with, if all is in order
	early   atomic.Int64 // runs before the predecessor was done
	done    chan struct{}
}

func newTally(n, percent int) *tally {
	return &tally{percent: percent, runs: make([]atomic.Int32, n), done: make(chan struct{})}
}

// messages are what the queue is filled with.
func (t *tally) messages(queue string) []publisher.Message {
	all := make([]publisher.Message, len(t.runs))
	for i := range all {
		body := make([]byte, BodySize)
		binary.BigEndian.PutUint64(body, uint64(i))
		all[i] = publisher.Message{Key: queue, Publishing: amqp.Publishing{MessageId: uuid.Must(uuid.NewV7()).String(), Body: body}}
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
	run := t.runs[i].Add(1)
	if t.ordered {
		if int64(i) != t.next.Load() {
			t.early.Add(1)
		}
		if !t.fails(i) || run > Retries {
			t.next.Store(int64(i) + 1)
		}
	}
	if t.fails(i) {
		return errFailing
	}
	return nil
}

func (t *tally) number(d *amqp.Delivery) (int, bool) {
	if len(d.Body) != BodySize {
		return 0, false
	}
	i := binary.BigEndian.Uint64(d.Body)
	return int(i), i < uint64(len(t.runs)) //nolint:gosec // looked at next
}

// last reports whether a message has run as often as it may.
func (t *tally) last(d *amqp.Delivery) bool {
	i, ok := t.number(d)
	return ok && t.runs[i].Load() > Retries
}

// settle notes that n more messages were acked or dead-lettered. With the last, done is closed.
func (t *tally) settle(n int) {
	if t.settled.Add(int64(n)) == int64(len(t.runs)) {
		close(t.done)
	}
}

// handled reports whether every message has run; where none fails, nothing follows.
func (t *tally) handled(runs int) bool { return runs == len(t.runs) }

// dead is the number of messages that must be dead-lettered.
func (t *tally) dead() int { return len(t.runs) * t.percent / 100 }

// check says which message did not run as often as it must.
func (t *tally) check() error {
	for i := range t.runs {
		want := int32(1)
		if t.fails(i) {
			want = Retries + 1
		}
		if got := t.runs[i].Load(); got != want {
			return fmt.Errorf("message %d ran %d times, not %d", i, got, want)
		}
	}
	if n := t.strange.Load(); n > 0 {
		return fmt.Errorf("%d deliveries of messages that were not published for it", n)
	}
	if n := t.early.Load(); n > 0 {
		return fmt.Errorf("%d runs out of order", n)
	}
	return nil
}

func (t *tally) total() int {
	total := 0
	for i := range t.runs {
		total += int(t.runs[i].Load())
	}
	return total
}
