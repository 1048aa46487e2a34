// Package inbox does the work of a message and notes that it is done in one transaction, for plugin/pgstrikes and
// plugin/sqlstrikes.
//
// The note is a row of the table strikes_inbox, the mark of the message. Its INSERT comes first. If the mark is there
// already, the work was done and the message is acked without it. If another process has inserted the mark and has not
// committed, the INSERT waits for that process to commit or to die.
package inbox

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/consumer"
)

// A Transaction is a transaction of a driver.
type Transaction interface {
	// Exec returns the number of rows that the server reports.
	Exec(ctx context.Context, query string, args ...any) (rows int64, err error)
	Commit(ctx context.Context) error
	Rollback(ctx context.Context) error
}

// Inbox is the inbox of a queue. Tx is the transaction in which the work runs.
type Inbox[Tx Transaction] struct {
	Queue string
	Key   func(amqp.Delivery) string // of the message; if nil, the id that its consumer counts it under
	Wait  time.Duration              // for another process at the mark; if zero, half the time that the handler has

	// Begin begins a transaction, which ends with ctx.
	Begin func(ctx context.Context) (Tx, *Database, error)
}

const (
	longestQueue = 255         // bytes of a queue's name, by AMQP
	untimed      = time.Minute // for half a handler without a timeout
	grace        = time.Second // for a COMMIT that begins at the handler's deadline; a consumer gives 2 s
)

// Handler returns a handler that does the work of each message once for each generation.
func (in Inbox[Tx]) Handler(work func(ctx context.Context, tx Tx, d amqp.Delivery) error) consumer.Handler {
	return func(ctx context.Context, d amqp.Delivery) error {
		attempt, ok := consumer.AttemptFrom(ctx)
		if !ok {
			return fmt.Errorf("inbox of queue %q: the context is not a Handler's; in tests, call Consumer.Handle", in.Queue)
		}
		if in.Queue == "" || len(in.Queue) > longestQueue {
			return consumer.NotCounted(fmt.Errorf("inbox: Queue is %.64q; want a name of 1 to %d bytes", in.Queue,
				longestQueue))
		}
		m := mark{queue: in.Queue, id: attempt.ID, generation: attempt.Generation, fence: attempt.Fence}
		if in.Key != nil {
			m.id = in.Key(d)
		}
		if m.id == "" {
			return consumer.Reject(m.error("the message has no id, so its work could be done twice; "+
				"set its MessageId, or Key", nil))
		}
		return in.handle(ctx, m, func(tx Tx) error { return work(ctx, tx, d) })
	}
}

// handle takes a message from its mark to the COMMIT. Each error before the work, and each that only a lost connection
// or another transaction explains, is no fault of the message: the attempt is not counted. A COMMIT whose reply is lost
// may have been carried out. The next attempt finds the mark then, and does the work otherwise.
func (in Inbox[Tx]) handle(ctx context.Context, m mark, work func(Tx) error) (err error) {
	// Until the COMMIT begins, the transaction ends with ctx.
	bound, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	unbind := context.AfterFunc(ctx, end)
	defer unbind()

	tx, db, err := in.Begin(bound)
	if err != nil {
		return consumer.NotCounted(m.error("beginning a transaction", err))
	}
	open := true
	rollback := func() error {
		open = false
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
		defer cancel()
		return tx.Rollback(ending)
	}
	defer func() {
		if open { // the work panicked
			_ = rollback()
		}
	}()

	if len(m.id) > db.longestID {
		return consumer.Reject(errors.Join(m.error(fmt.Sprintf("the id has %d bytes, and %s keeps %d at most; "+
			"set a Key that shortens it", len(m.id), db.name, db.longestID), nil), rollback()))
	}
	first, err := in.insert(ctx, tx, db, m)
	switch {
	case err != nil:
		_ = rollback() // it fails if the connection is lost, and the first error says more
		return consumer.NotCounted(m.error("marking the message", db.explain(err)))
	case !first:
		_ = rollback() // nothing was written
		return nil
	}

	if err := work(tx); err != nil {
		ended := rollback()
		lost := ended != nil && !endedByWork(ended) && !db.cancelledByWork(err)
		if ctx.Err() == nil && (lost || db.passes(err)) {
			return consumer.NotCounted(err)
		}
		return err
	}
	if ctx.Err() != nil || !unbind() { // a context ends before the function of AfterFunc begins
		_ = rollback()
		return m.error("the work was not committed, because its time was over", context.Cause(ctx))
	}
	if deadline, ok := ctx.Deadline(); ok {
		defer time.AfterFunc(time.Until(deadline)+grace, end).Stop()
	}
	open = false
	if err := tx.Commit(bound); err != nil {
		err = m.error("committing the work", err)
		if db.refused(err) {
			return err
		}
		return consumer.NotCounted(err)
	}
	return nil
}

// insert inserts the mark, and reports whether it is new.
func (in Inbox[Tx]) insert(ctx context.Context, tx Tx, db *Database, m mark) (first bool, err error) {
	left := 2 * untimed
	deadline, timed := ctx.Deadline()
	if timed {
		left = time.Until(deadline)
	}
	wait := in.Wait
	if wait <= 0 {
		wait = left / 2
	}
	waiting, cancel := context.WithTimeoutCause(ctx, wait, fmt.Errorf("another process has had the message for %v, "+
		"or the database does not answer", wait.Round(time.Millisecond)))
	defer cancel()
	args := []any{[]byte(m.queue), []byte(m.id), []byte(m.generation), m.fence}
	if db.ends { // PostgreSQL ends a transaction that was idle for as long as the handler may run
		var idle any
		if timed {
			idle = fmt.Sprint(min(max(left.Milliseconds(), 1), math.MaxInt32)) // the server takes no more
		}
		args = append(args, idle)
	}
	rows, err := tx.Exec(waiting, db.insert, args...)
	if err != nil && waiting.Err() != nil {
		err = fmt.Errorf("%w: %w", context.Cause(waiting), err)
	}
	return rows == 1, err
}

// mark is the row of a message.
type mark struct {
	queue, id, generation string
	fence                 int64
}

func (m mark) error(text string, err error) error {
	if err == nil {
		return fmt.Errorf("inbox of queue %q, message %.64q: %s", m.queue, m.id, text)
	}
	return fmt.Errorf("inbox of queue %q, message %.64q: %s: %w", m.queue, m.id, text, err)
}
