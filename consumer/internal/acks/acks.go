// Package acks settles deliveries in runs: one basic.ack or basic.nack for all with the same method, from the oldest
// up to the first delivery without one. It knows delivery tags and methods, and nothing of attempts.
package acks

import (
	"cmp"
	"slices"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

const (
	// Tick is how often a Batcher looks for settlements that are due.
	Tick = time.Millisecond

	// Patience is the number of ticks that a method waits for an older delivery without one.
	Patience = 4
)

// Method says how a delivery is settled.
type Method uint8

// The methods. The zero value is none.
const (
	Ack Method = iota + 1
	Requeue
	DeadLetter
)

// settle sends basic.ack or basic.nack; multiple covers all older deliveries that are not settled.
func (v Method) settle(channel amqp.Acknowledger, tag uint64, multiple bool) error {
	switch v {
	case Ack:
		return channel.Ack(tag, multiple)
	case Requeue:
		return channel.Nack(tag, multiple, true)
	default:
		return channel.Nack(tag, multiple, false)
	}
}

// Entry is a delivery's part in a Batcher. It must not be copied while it is open.
type Entry[D any] struct {
	Delivery D
	Channel  amqp.Acknowledger
	Tag      uint64
	Method   Method // set by Settle

	tick int // in which the method came
}

// Options are the settings of a Batcher.
type Options[D any] struct {
	// Prefetch is the number of deliveries that the broker may have given out unsettled.
	Prefetch int

	// Idle reports whether a worker has nothing to do. It must not block.
	Idle func() bool

	// Together calls send and returns once the requests that send makes have been sent. If nil, a Batcher only calls
	// send.
	Together func(send func()) error

	// Settled is called once for each delivery with a method, after its ack or nack was sent, or could not be. One
	// goroutine at a time calls it, in the order of sending.
	Settled func(D, error)
}

// Batcher holds the unsettled deliveries of a channel, oldest first. A delivery with a method that comes after one
// without is settled on its own. That happens after four ticks, once there are two runs of them, or when the prefetch
// is full and a worker is idle. A method that differs from its neighbours does not end a run. Requeues that go
// together come back together, next to one another, so the next run of them is one again.
type Batcher[D any] struct {
	Options[D]
	timer *time.Timer // of the next tick

	mu        sync.Mutex
	unsettled []*Entry[D] // oldest first. One that is left unsettled stays, because no run may cover it
	decided   int         // of them, with a method
	run       int         // how many of those are worth one request
	ticks     int         // so far
	opened    uint64
	highest   uint64 // of the tags that were opened; they begin at 1
	armed     bool

	due     []settlement[D] // taken out of unsettled
	sending bool            // one goroutine at a time sends: a tag that a run has covered must not be settled again
	again   bool            // the sender is to look once more
	paused  bool
	waiting []chan struct{} // closed when nothing is to be sent
}

// New returns a Batcher without deliveries.
func New[D any](o Options[D]) *Batcher[D] {
	b := &Batcher[D]{Options: o, run: max(o.Prefetch/3, 1)}
	if b.Together == nil {
		b.Together = func(send func()) error { send(); return nil }
	}
	b.mu.Lock() // the first tick may come at any moment
	defer b.mu.Unlock()
	b.timer, b.armed = time.AfterFunc(Tick, b.tick), true
	return b
}

func (b *Batcher[D]) tick() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ticks++
	b.armed = false
	b.send()
	b.arm()
}

// arm sets the timer while a method waits.
func (b *Batcher[D]) arm() {
	if b.decided > 0 && !b.armed {
		b.armed = true
		b.timer.Reset(Tick)
	}
}

// Open takes in a delivery. If a channel has two consumers, deliveries may come in another order than that of their
// tags. While one with a lower tag has not come, each is settled on its own: one request for several would settle it
// too. One that a cancelled consumer brings too late never comes.
func (b *Batcher[D]) Open(e *Entry[D]) {
	b.mu.Lock()
	defer b.mu.Unlock()
	at := len(b.unsettled)
	for at > 0 && b.unsettled[at-1].Tag > e.Tag {
		at--
	}
	b.unsettled = slices.Insert(b.unsettled, at, e)
	b.opened++
	b.highest = max(b.highest, e.Tag)
}

// Settle gives a delivery its method. The delivery belongs to the Batcher from then on. An urgent one is settled
// immediately, with all that have a method up to the first without.
func (b *Batcher[D]) Settle(e *Entry[D], v Method, urgent bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e.Method, e.tick = v, b.ticks
	if urgent {
		e.tick -= Patience // it has waited long enough
	}
	if b.decided++; b.decided == 1 { // nothing else waits for the timer
		b.armed = false
	}
	if urgent || b.decided >= b.run || b.starving() {
		b.send()
	}
	b.arm()
}

// Sent settles all that have a method. The channel that it returns is closed once these acks and nacks were sent, or
// could not be. While the Batcher is paused it stays open.
func (b *Batcher[D]) Sent() <-chan struct{} {
	sent := make(chan struct{})
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting = append(b.waiting, sent)
	for _, e := range b.unsettled {
		if e.Method != 0 {
			e.tick = b.ticks - Patience
		}
	}
	b.send()
	return sent
}

// Wake is to be called when a worker has become idle.
func (b *Batcher[D]) Wake() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.decided > 0 && b.starving() {
		b.send()
	}
}

// starving reports whether a worker waits for a delivery that the broker may not send before something is settled.
func (b *Batcher[D]) starving() bool { return len(b.unsettled) >= b.Prefetch && b.Idle() }

// Hurry ends a pause and settles all deliveries with a method. From then on each is settled as soon as it has one.
func (b *Batcher[D]) Hurry() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.run, b.paused = 1, false
	b.send()
}

// Pause settles nothing until Hurry is called, but for acks and nacks that may be on their way.
func (b *Batcher[D]) Pause() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.paused = true
}

// sendDue sends the settlements that are due, up to a pause.
func (b *Batcher[D]) sendDue() {
	var sent []settlement[D]
	var errs []error
	err := b.Together(func() {
		for next := b.next(); next != nil; next = b.next() {
			last := next[len(next)-1]
			sent, errs = append(sent, next), append(errs, last.Method.settle(last.Channel, last.Tag, len(next) > 1))
		}
	})
	for i, entries := range sent {
		for _, e := range entries {
			b.Settled(e.Delivery, cmp.Or(errs[i], err))
		}
	}
}

// next takes out the next settlement that is due; nil: there is none, or the Batcher is paused.
func (b *Batcher[D]) next() (next settlement[D]) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.paused && len(b.due) > 0 {
		next, b.due = b.due[0], b.due[1:]
	}
	return next
}

// send settles the deliveries that are due, and unlocks the mutex meanwhile. If another goroutine sends, that one
// looks once more. No other function settles.
func (b *Batcher[D]) send() {
	b.again = true
	if b.sending {
		return
	}
	b.sending = true
	for !b.paused && (b.again || len(b.due) > 0) {
		if len(b.due) == 0 {
			b.again = false
			b.take()
			continue
		}
		b.mu.Unlock()
		b.sendDue()
		b.mu.Lock()
	}
	b.sending = false
	if !b.paused {
		for _, sent := range b.waiting {
			close(sent)
		}
		b.waiting = nil
	}
}
