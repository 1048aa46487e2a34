package ops

import (
	"context"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/inspect"
)

const (
	// collectTimeout bounds a Collect. A broker that hangs is out of reach.
	collectTimeout = 10 * time.Second
	// closeTimeout bounds the end of a connection.
	closeTimeout = 5 * time.Second
)

// LostError says that the connection to the broker was lost.
type LostError struct{ Err error }

func (e *LostError) Error() string { return e.Err.Error() }
func (e *LostError) Unwrap() error { return e.Err }

// Collector collects the status of a queue, as often as it is asked to. It is
// not safe for concurrent use.
type Collector struct {
	Queue string
	VHost string
	Store *counter.Admin

	// Dial opens a connection to the broker. Collect dials again when it is
	// lost.
	Dial func(context.Context) (*amqp.Connection, error)

	// DeadLetterQueue is where dead letters land; empty: it is found.
	DeadLetterQueue string

	// API is the management API. If it has none, FindAPI looks for it once; nil
	// looks nowhere.
	API     inspect.Need
	FindAPI func(context.Context, *amqp.Connection, inspect.Need) (inspect.Need, error)

	// NoReasons leaves Dead.Reasons empty, for a caller that groups the dead letters itself.
	NoReasons bool

	// Most is how many blocking messages are listed; 0: all.
	Most int

	conn     *amqp.Connection
	searched bool                 // for the API
	noAPI    error                // why there is none
	noDelay  map[string]time.Time // until when a delay queue is not asked for

	examined   time.Time // the last time
	found      []inspect.Finding
	unexamined error
}

// Close closes the connection to the broker. The store is the caller's.
func (c *Collector) Close() {
	if c.conn != nil {
		_ = c.conn.CloseDeadline(time.Now().Add(closeTimeout))
	}
}

// Collect asks broker, store and management API. After an error nothing is
// known; a later call may succeed. It returns a *LostError when the connection
// was lost, and queueinfo.ErrNotFound.
func (c *Collector) Collect(ctx context.Context) (Status, error) {
	ctx, cancel := context.WithTimeout(ctx, collectTimeout)
	defer cancel()
	s := Status{VHost: c.VHost, Queue: c.Queue, Blocking: []Message{}}
	if err := c.askBroker(ctx, &s); err != nil {
		return s, err
	}
	if err := c.askStore(ctx, &s); err != nil {
		return s, fmt.Errorf("store: %w", err)
	}
	c.askManagement(ctx, &s)
	s.block(c.Most)
	s.Dead.judge()
	s.Dead.countUnrecorded()
	c.examine(ctx, &s)
	s.Dead.suppose(s.Findings, s.Consumers, s.Unacked)
	s.Dead.sum()
	return s, nil
}
