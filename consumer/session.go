package consumer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/consumer/internal/acks"
)

// ErrUncleanStop is wrapped by Consume and Run when a stop came before a lost session had ended. The last acks may not
// have reached the broker, and their messages may be handled again; nothing was counted.
var ErrUncleanStop = errors.New("consumer: stopping: the last acks may be lost")

// ErrStuck is wrapped by Run and Consume when ten times the Concurrency of handlers have passed their deadlines and
// not returned. Their resources cannot be reclaimed; restart the process. No other message was counted for that.
var ErrStuck = errors.New("consumer: too many handlers hang")

// Why a session ends before its context is done. Run begins another.
var (
	errLost      = errors.New("the connection was lost")
	errWaitLost  = fmt.Errorf("%w during a wait for the end of a pause, or for a partition", errLost)
	errCancelled = errors.New("the broker cancelled the consumer: the queue was deleted or moved, or a delivery was " +
		"held beyond the consumer timeout")
	errDrained = errors.New("the time to drain is over")
)

const (
	// closeTimeout bounds the last exchange with a broker that may not answer.
	closeTimeout = 5 * time.Second

	// settleTimeout bounds the wait for the last steps of deliveries once their handlers are cancelled. Only an ack whose
	// write hangs takes longer; its goroutine ends with the socket.
	settleTimeout = abandonAfter + 2*stepTimeout + closeTimeout

	// pendingAcks is how many acks a clean close of the channel keeps on a quorum queue.
	pendingAcks = 30
)

// session is one channel and the deliveries that came with it. None of them outlives it.
type session struct {
	settings
	dispatcher // which delivery is next
	rooms      rooms

	late            *late     // steps that the store did not take in time
	route           *route    // that dead letters take; if nil, it is not checked
	deadLettersFrom time.Time // dead letters are held until then
	consuming       func()    // called when the broker has accepted the consumer
	again           bool      // an earlier session or dial failed, and that was logged

	acks *acks.Batcher[*delivery] // of the unsettled deliveries
	link *link                    // once it consumes

	together func(send func()) error // that of the link; nil without one

	live    context.Context //nolint:containedctx // parent of those that handlers get, after the one that ends a session
	end     func()          // ends the session in favour of another one
	tasks   sync.WaitGroup  // deliveries that are not done with
	ended   chan error      // the first error that ends the session from within
	arrived arrived         // which messages came

	// Set by rooms.
	waiting func(ctx context.Context, d *delivery, wait time.Duration) waited
	look    func()                 // reads the requests of operators
	lasts   func() <-chan struct{} // returns a channel that closes when the DrainTimeout begins
	patient bool                   // a rejected message waits for the store, too
	reports bool                   // the store learns of an attempt that the handler says is not counted
	failed  func(*delivery)        // called after the reply to FAIL
	more    chan amqp.Delivery     // brings the deliveries of a second consumer on the channel
	lacking func()                 // called when a delivery comes before one with a lower tag
}

// settings are the options of a session. It changes none but the Prefetch.
type settings struct {
	Consumer        // with every default in place
	vhost    string // of the connection
	source   string // the queue that it consumes: Queue, or a partition of it
}

// fail ends the session, unless something else ends it already.
func (s *session) fail(err error) {
	select {
	case s.ended <- err:
	default:
	}
}
