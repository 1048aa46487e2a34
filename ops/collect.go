package ops

import (
	"context"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/internal/inspect"
	"github.com/strikesmq/strikes/internal/printable"
)

// collectTimeout bounds a Collect. A broker that hangs is out of reach.
const collectTimeout = 10 * time.Second

// Collector collects the status of the queues of a virtual host, as often as you ask. Collect returns the status of one
// queue, and All that of each. A Collector is not safe for concurrent use.
type Collector struct {
	VHost string
	Store *counter.Admin

	// StoreDown, if not nil, is why the store does not reply. It is not asked again, and Store may be nil.
	StoreDown error

	// Dial opens a connection to the broker. The Collector dials again when it is lost.
	Dial func(context.Context) (*amqp.Connection, error)

	// API is the management API, which lists the queues. If it has no URL, FindAPI looks for one until it answers; a nil
	// FindAPI looks nowhere.
	API     inspect.Need
	FindAPI func(context.Context, *amqp.Connection, inspect.Need) (inspect.Need, error)

	// Names are the queues that All shows. Empty means all that the management API lists, except for exclusive
	// queues, streams, dead-letter queues and delay queues.
	Names []string

	conn  *amqp.Connection
	noAPI error // why there is none

	listing inspect.Listing // the last one
	last    *question       // of Collect; a question about another queue replaces it
}

// Question asks for the status of a queue.
type Question struct {
	Queue           string
	DeadLetterQueue string // where dead letters land; empty: it is found
	NoReasons       bool   // leaves Dead.Reasons empty, for a caller that groups the dead letters itself
	Most            int    // how many blocking messages are listed; 0: all
}

// question is a Question, and the parts of its answers that are kept for the next time.
type question struct {
	*Collector
	Question

	found      string    // the dead-letter queue, by the last certain answer
	foundAt    time.Time // when it was last asked for
	examined   time.Time // the last time
	findings   []inspect.Finding
	unexamined error
}

// Close closes the connection to the broker. The store is the caller's.
func (c *Collector) Close() {
	if c.conn != nil {
		broker.HangUp(c.conn)
	}
}

// Lost reports whether the connection of the last Collect was lost. It is false if there was none.
func (c *Collector) Lost() bool { return c.conn != nil && c.conn.IsClosed() }

// connect dials unless there is a connection, and looks for the management API. If ctx ends before release is called,
// the connection closes, because a request knows no context.
func (c *Collector) connect(ctx context.Context) (release func() bool, err error) {
	if c.conn == nil || c.conn.IsClosed() {
		if c.conn, err = c.Dial(ctx); err != nil {
			return nil, err
		}
	}
	conn := c.conn
	release = context.AfterFunc(ctx, func() { broker.HangUpWithin(conn, 0) })
	if c.API.Management == "" && c.FindAPI != nil {
		c.API, c.noAPI = c.FindAPI(ctx, conn, c.API)
	}
	return release, nil
}

// WithoutStore returns the broker's figures as a text, for the time while the store does not reply. It is escaped.
func (s Status) WithoutStore() string {
	return fmt.Sprintf("%s ready, %s, dead letters: %s; the counts of the store are not known",
		printable.Plural(*s.Ready, "message"), printable.Plural(*s.Consumers, "consumer"), s.Dead.Holding())
}

// Collect asks broker, store and management API about a queue. After an error do not use the Status; a later call may
// succeed. If only the store failed, the error has the broker's figures, such as "3 messages ready". For a queue that
// does not exist it wraps broker.ErrNotFound. Lost tells a lost connection from a refusal.
func (c *Collector) Collect(ctx context.Context, about Question) (Status, error) {
	ctx, cancel := context.WithTimeout(ctx, collectTimeout)
	defer cancel()
	if c.last == nil || c.last.Queue != about.Queue {
		c.last = &question{Collector: c}
	}
	q := c.last
	q.Question = about
	s := Status{VHost: c.VHost, Queue: q.Queue, Blocking: []Message{}}
	if err := q.askBroker(ctx, &s); err != nil {
		return s, err
	}
	if err := q.askStore(ctx, &s); err != nil {
		return s, fmt.Errorf("%s: %w", s.WithoutStore(), err)
	}
	q.askManagement(ctx, &s)
	s.lead()
	s.Retrying = len(s.Blocking)
	if s.Forgotten = min(s.Forgotten, s.Retrying); q.Most > 0 {
		s.Blocking = s.Blocking[:min(q.Most, s.Retrying)]
	}
	s.Dead.judge()
	q.examine(ctx, &s)
	s.Dead.suppose(s.Findings, *s.Consumers, s.Unacked)
	return s, nil
}
