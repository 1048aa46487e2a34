package consumer

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/counter"
)

// Attempt tells a handler which try at the message this is.
type Attempt struct {
	// Number is 1 for a message that was never charged, and one more than its charges after that. An attempt that was
	// stopped without a charge does not count, so two runs may have the same number.
	Number int

	// Last is the Number after whose failure the message is dead-lettered, as far as it is known: MaxRetries+1, or for a
	// redelivered message what an operator has set. Number == Last says that this is the last try.
	Last int

	// Token is unique to this run of the handler in all processes.
	Token string

	// Fence orders the deliveries of a message. A system behind the handler can remember the highest fence of each id, and
	// refuse lower ones. It then refuses consumers that lost the message and do not know it yet. It must accept an equal one.
	//
	// A redelivered message gets a fence from the store before its handler runs. It is greater than all that the store gave
	// for its id before: about the store's time in microseconds since 1970. All attempts in place at a delivery have its
	// fence. A first delivery does not ask the store. It has the fence that the message carries: 0 for a new message, else a
	// fence above those before the replay (FenceHeader). So it is refused once a later delivery was accepted.
	//
	// The store gives fences in the order of requests, and does not know who owns the delivery. A consumer that lost its
	// session to the broker, but reaches the store, may ask after the next owner. It then has the higher fence until that
	// owner's next delivery.
	//
	// Another tool than `strikes dead replay` may move a dead letter back. Its first delivery then has the end of the second
	// in which it died, by the broker's clock; RabbitMQ 3.10 keeps the time of the first death. This delivery may be refused
	// if the clocks differ, within that second, or on 3.10. Its next delivery is not.
	Fence int64
}

type attemptKey struct{}

// AttemptFrom returns what is known of the attempt that a Handler was called for; false if ctx is not a Handler's.
func AttemptFrom(ctx context.Context) (Attempt, bool) {
	r, ok := ctx.Value(attemptKey{}).(*run)
	if !ok {
		return Attempt{}, false
	}
	return Attempt{Number: r.number, Last: r.last, Token: r.token.String(), Fence: r.fence}, true
}

// attempt is a delivery on its way from the channel to its settlement. One goroutine at a time has it.
type attempt struct {
	delivery amqp.Delivery
	message  counter.Message
	deadline time.Time // until when the delivery may be held
	run      int       // of the handler on this delivery
	first    run       // the first of them, which is most often the only one
	fence    int64     // of all runs, once fenced
	fenced   bool
	token    token
	number   int           // of the try that ran last; 0 if none did
	ran      time.Duration // how long

	next  step
	after step          // the pause
	pause time.Duration // how long it is
	away  int           // steps in a row that the store did not answer

	mode    counter.Mode  // of the START that is to be sent, or was
	isolate bool          // the attempt is to be isolated
	marked  bool          // START let this run go ahead, or may have: its reply was lost
	doubt   bool          // a START was not answered, and may yet arrive: only END makes sure that it opens nothing
	slot    bool          // one of the slots is taken
	locked  bool          // it holds the isolation lock, all of it
	answer  counter.Reply // of the last step
	failure error         // of the last run, for the Observer
	said    *plain        // the same; nil if it did not fail
	cause   counter.Cause
	outcome Outcome
	err     error

	undecided  bool // it is the one attempt of the process that may be open and exclusive
	unrecorded bool // dead-lettered before the store had its charge

	broken    error     // why this dead letter is held: its route
	heldUntil time.Time // if it is held
	bound     time.Time // when its tombstone was renewed

	lane         string   // that an ordered session has it in
	older, newer *attempt // in the window of the session
	decided      bool     // to be settled by it, as next says
	tick         int      // of the window in which it was
}

// receive is where a delivery enters.
func (s *Settler) receive(d amqp.Delivery) *attempt {
	a := &attempt{delivery: d, run: 1, deadline: time.Now().Add(s.ConsumerTimeout / 2)}
	a.message = counter.Message{VHost: s.VHost, Queue: s.Queue, Generation: generation(d.Headers, s.Queue)}
	s.guard("Key", func() { a.message.ID = s.Key(a.shown()) })
	s.renew(a)
	return a
}

// renew prepares a run of the handler, an attempt of its own.
func (s *Settler) renew(a *attempt) {
	a.token, a.marked, a.doubt = token(runs.Add(1)), false, false
	a.cause, a.failure, a.number, a.ran = "", nil, 0, 0
	a.mode = startModes[s.Isolation]
	a.next = decideReceived(a.message.ID != "", a.delivery.Redelivered, a.run, s.Isolation)
	a.isolate = a.next == stepIsolate
	if a.next == stepDeadLetter {
		a.cause, a.failure = counter.CauseNoID, errNoID
	}
}

var startModes = map[Isolation]counter.Mode{
	IsolateSuspects: counter.ModeShared, Strict: counter.ModeIsolated, Off: counter.ModeUntracked,
}

func (a *attempt) counted(s *Settler) counter.Attempt {
	return counter.Attempt{Message: a.message, Token: a.token.String(), Holder: s.Holder, First: a.unseen(),
		Received: a.received(s), Floor: carriedFence(a.delivery.Headers, s.Queue)}
}

// keepFence returns the fence of the delivery, for all its runs: the one from START, else the one that the message carries.
func (a *attempt) keepFence(queue string) int64 {
	if !a.fenced {
		a.fenced, a.fence = true, a.answer.Fence
		if !a.marked {
			a.fence = carriedFence(a.delivery.Headers, queue)
		}
	}
	return a.fence
}

func (a *attempt) received(s *Settler) time.Time { return a.deadline.Add(-s.ConsumerTimeout / 2) }

// unseen reports whether this is the first run of a delivery that is not redelivered.
func (a *attempt) unseen() bool { return a.run == 1 && !a.delivery.Redelivered }

var (
	process     = newProcess()
	runs        atomic.Uint64
	thisProcess = holder()
)

// newProcess is short, for the store keeps it with every charge: it need only tell apart the processes that handle one
// message, of which 48 random bits make two alike once in 10^13.
func newProcess() string {
	var b [6]byte
	rand.Read(b[:]) // never fails, by its documentation
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// token names a run in all processes by the random part of this one and the run's number in it. It is spelled out only where
// it is asked for.
type token uint64

func (t token) String() string {
	var b [32]byte
	return string(strconv.AppendUint(append(append(b[:0], process...), '-'), uint64(t), 36))
}

func holder() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown host"
	}
	return fmt.Sprintf("%s, pid %d", host, os.Getpid())
}
