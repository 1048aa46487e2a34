package consumer

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"os"
	"strconv"
	"sync/atomic"

	"github.com/strikesmq/strikes/counter"
)

// Attempt tells a handler which attempt at the message this is.
type Attempt struct {
	// ID is the id of the message: the result of the consumer's Key, or the MessageId. It is empty if there is none.
	ID string

	// Generation distinguishes one use of the ID from the next. A retry keeps it, and a replay of the dead letter changes
	// it: it is counter.GenerationHash of the message's generation, at most 16 characters. A system behind the handler
	// that remembers ID and Generation can tell a redelivery from a replay.
	Generation string

	// Number is one more than the failed attempts that were counted so far. An attempt that was stopped is not counted, so
	// two attempts may have the same number.
	Number int

	// Last is the Number after whose failure the message is dead-lettered, as far as it is known: MaxRetries+1, or for a
	// redelivered message the limit that an operator has set. Number == Last says that this is the last attempt.
	Last int

	// Token is unique to this attempt in all processes.
	Token string

	// Fence orders the deliveries of a message. A system behind the handler can remember the highest fence of each id, and
	// refuse lower ones. It then refuses consumers that lost the message and do not know it yet. It must accept an equal
	// one.
	//
	// A redelivered message gets a fence from the store before its handler runs. It is greater than all that the store
	// gave for its id before: about the store's time in microseconds since 1970. All attempts in place at a delivery have
	// its fence. A first delivery does not ask the store. It has the fence that the message carries: 0 for a new message,
	// else a fence above those before the replay (FenceHeader). So it is refused once a later delivery was accepted.
	//
	// The store gives fences in the order of requests, and does not know who owns the delivery. A consumer that lost its
	// session to the broker, but reaches the store, may ask after the next owner. It then has the higher fence until that
	// owner's next delivery.
	//
	// Another tool than `strikes dead replay` may move a dead letter back. Its first delivery then has the end of the
	// second in which it died, by the broker's clock; RabbitMQ 3.10 keeps the time of the first death. This delivery may
	// be refused if the clocks differ, within that second, or on 3.10. Its next delivery is not.
	Fence int64

	// Isolated reports that no other handler of this package runs in the process, apart from abandoned ones. See
	// Isolation.
	Isolated bool
}

type attemptKey struct{}

// AttemptFrom returns the attempt that a Handler was called for; false if ctx is not a Handler's.
func AttemptFrom(ctx context.Context) (Attempt, bool) {
	c, ok := ctx.Value(attemptKey{}).(*call)
	if !ok {
		return Attempt{}, false
	}
	message := c.delivery.message
	return Attempt{
		ID: message.ID, Generation: counter.GenerationHash(message.Generation), Number: c.number, Last: c.last,
		Token: c.token.String(), Fence: c.fence, Isolated: c.isolated,
	}, true
}

var (
	process     = newProcess()
	tokens      atomic.Uint64
	thisProcess = processName()
)

// newProcess is short, because the store keeps it with every failed attempt. It distinguishes the processes that handle
// one message: 48 random bits make two alike once in 10^14.
func newProcess() string {
	var b [6]byte
	rand.Read(b[:]) // never fails, by its documentation
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// token names an attempt in all processes: the random part of this process, and a number in it. It is spelled out only
// where it is asked for.
type token uint64

func (t token) String() string {
	var b [32]byte
	return string(strconv.AppendUint(append(append(b[:0], process...), '-'), uint64(t), 36))
}

func processName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown host"
	}
	return fmt.Sprintf("%s, pid %d", host, os.Getpid())
}
