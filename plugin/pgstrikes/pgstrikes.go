// Package pgstrikes does the work of a message once in PostgreSQL, with pgx.
//
// RabbitMQ delivers a message again if the ack of its first delivery was lost. An [Inbox] marks the message in the
// transaction that does its work, so the next delivery finds the mark and does nothing. It promises one effect in that
// database for each generation of an id: a retry and a redelivery do the work at most once, and a replay of a dead
// letter does it again. docs/effects.md says which effects no inbox can promise.
package pgstrikes

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/internal/inbox"
)

// Schema makes the table strikes_inbox, where marks are kept, and changes nothing if it is there. It is one statement.
// Several processes may run it at once.
const Schema = inbox.PostgreSQLSchema

// Inbox does the work of each message of one queue once. Its methods are safe for concurrent use.
type Inbox struct {
	DB *pgxpool.Pool // where the work is done; it needs the table of Schema

	// Queue is the name under which messages are marked, of 1 to 255 bytes: that of the queue. If queues of one name in
	// several virtual hosts or brokers share the database, each needs a name of its own, such as "tenant-a/orders".
	Queue string

	// Key returns the id under which a message is marked, of 1 to 2000 bytes; if nil, the id under which its consumer
	// counts it. Of two messages with one id, only the first is worked.
	Key func(amqp.Delivery) string

	// Wait is how long to wait for another process that has the message and has not committed; if zero, half the time
	// that the handler has left, or one minute if it has no timeout. The attempt is not counted then.
	Wait time.Duration
}

// Handler returns a handler for a consumer. It begins a transaction, marks the message, calls work, and commits. If the
// message is marked already it returns nil without calling work. Without work there is no Handler: it is nil, which a
// consumer refuses.
//
// The work must use tx for all that it writes, return every error that tx gives, and leave the end of tx to the
// Handler. An error of the work rolls back, and counts as without an inbox. An attempt is not counted if the
// connection was lost, if the COMMIT got no reply, or if PostgreSQL reports a passing error: a lock timeout, a
// deadlock, a serialization failure, a server that stops, has no room or is read-only. A failure before the work is not
// counted either. A message without an id, or with a longer one, is dead-lettered.
//
// The transaction sets idle_in_transaction_session_timeout to the time that the handler has left. So PostgreSQL frees
// the message of a process that froze.
func (in *Inbox) Handler(work func(ctx context.Context, tx pgx.Tx, d amqp.Delivery) error) consumer.Handler {
	if work == nil {
		return nil
	}
	return inbox.Inbox[transaction]{
		Queue: in.Queue, Key: in.Key, Wait: in.Wait,
		Begin: func(ctx context.Context) (transaction, *inbox.Database, error) {
			if in.DB == nil {
				return transaction{}, nil, errNoDB
			}
			tx, err := in.DB.Begin(ctx)
			return transaction{tx}, inbox.PostgreSQL, err
		},
	}.Handler(func(ctx context.Context, t transaction, d amqp.Delivery) error { return work(ctx, t.Tx, d) })
}

// Forget deletes the marks of the queue that are older than keep, and returns how many. Call it from time to time, in
// one process. A message that comes back later than keep after its work is worked again, so keep marks for longer than
// a message may be in the queue and its delay queues; a week is usual.
func (in *Inbox) Forget(ctx context.Context, keep time.Duration) (int64, error) {
	if in.DB == nil {
		return 0, errNoDB
	}
	return inbox.PostgreSQL.Forget(ctx, in.Queue, keep, func(ctx context.Context, query string, args ...any) (int64,
		error) {
		tag, err := in.DB.Exec(ctx, query, args...)
		return tag.RowsAffected(), err
	})
}

var errNoDB = errors.New("pgstrikes: DB is nil")

type transaction struct{ pgx.Tx }

func (t transaction) Exec(ctx context.Context, query string, args ...any) (int64, error) {
	tag, err := t.Tx.Exec(ctx, query, args...)
	return tag.RowsAffected(), err
}
