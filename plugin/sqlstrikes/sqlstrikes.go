// Package sqlstrikes does the work of a message once in PostgreSQL, MySQL or MariaDB, with database/sql.
//
// RabbitMQ delivers a message again if the ack of its first delivery was lost. An [Inbox] marks the message in the
// transaction that does its work, so the next delivery finds the mark and does nothing. It promises one effect in that
// database for each generation of an id: a retry and a redelivery do the work at most once, and a replay of a dead
// letter does it again. docs/effects.md says which effects no inbox can promise.
//
// It is tested with github.com/go-sql-driver/mysql, with github.com/lib/pq, and with the package stdlib of
// github.com/jackc/pgx/v5. For PostgreSQL with pgx alone there is plugin/pgstrikes.
package sqlstrikes

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/internal/inbox"
)

// These make the table strikes_inbox, where marks are kept, and change nothing if it is there. Several processes may
// run them at once. Schema is for PostgreSQL.
const (
	Schema      = inbox.PostgreSQLSchema
	SchemaMySQL = inbox.MySQLSchema // also of MariaDB
)

// Inbox does the work of each message of one queue once. Its methods are safe for concurrent use.
type Inbox struct {
	DB *sql.DB // where the work is done; it needs the table of Schema or SchemaMySQL

	// Queue is the name under which messages are marked, of 1 to 255 bytes: that of the queue. If queues of one name in
	// several virtual hosts or brokers share the database, each needs a name of its own, such as "tenant-a/orders".
	Queue string

	// Key returns the id under which a message is marked; if nil, the id under which its consumer counts it. Of two
	// messages with one id, only the first is worked. It has 1 to 255 bytes, or up to 2000 in PostgreSQL.
	Key func(amqp.Delivery) string

	// Wait is how long to wait for another process that has the message and has not committed; if zero, half the time
	// that the handler has left, or one minute if it has no timeout. The attempt is not counted then. MySQL and MariaDB
	// wait for innodb_lock_wait_timeout at most.
	Wait time.Duration
}

// Handler returns a handler for a consumer. It begins a transaction, marks the message, calls work, and commits. If the
// message is marked already it returns nil without calling work. Without work there is no Handler: it is nil, which a
// consumer refuses.
//
// The work must use tx for all that it writes, return every error that tx gives, and leave the end of tx to the
// Handler. In MySQL and MariaDB it must not run a statement that commits by itself, such as CREATE TABLE. An error of
// the work rolls back, and counts as without an inbox. An attempt is not counted if the connection was lost, if the
// COMMIT got no reply, or if the database reports a passing error: a lock timeout, a deadlock, a serialization
// failure, a server that stops, has no room or is read-only. A failure before the work is not counted either. A message
// without an id, or with a longer one, is dead-lettered.
//
// In PostgreSQL the transaction sets idle_in_transaction_session_timeout to the time that the handler has left. So the
// server frees the message of a process that froze. For MariaDB set idle_transaction_timeout, and for MySQL
// wait_timeout, in the DSN of go-sql-driver: `?idle_transaction_timeout=300` with a handler timeout of 5 minutes.
func (in *Inbox) Handler(work func(ctx context.Context, tx *sql.Tx, d amqp.Delivery) error) consumer.Handler {
	if work == nil {
		return nil
	}
	var known atomic.Pointer[inbox.Database]
	return inbox.Inbox[transaction]{
		Queue: in.Queue, Key: in.Key, Wait: in.Wait,
		Begin: func(ctx context.Context) (transaction, *inbox.Database, error) {
			db := known.Load()
			if db == nil {
				var err error
				if db, err = in.database(ctx); err != nil {
					return transaction{}, nil, err
				}
				known.Store(db)
			}
			tx, err := in.DB.BeginTx(ctx, nil)
			return transaction{tx}, db, err
		},
	}.Handler(func(ctx context.Context, t transaction, d amqp.Delivery) error { return work(ctx, t.Tx, d) })
}

// Forget deletes the marks of the queue that are older than keep, and returns how many. Call it from time to time, in
// one process. A message that comes back later than keep after its work is worked again, so keep marks for longer than
// a message may be in the queue and its delay queues; a week is usual.
func (in *Inbox) Forget(ctx context.Context, keep time.Duration) (int64, error) {
	db, err := in.database(ctx)
	if err != nil {
		return 0, err
	}
	return db.Forget(ctx, in.Queue, keep, func(ctx context.Context, query string, args ...any) (int64, error) {
		return rows(in.DB.ExecContext(ctx, query, args...))
	})
}

// database asks the server which kind it is.
func (in *Inbox) database(ctx context.Context) (*inbox.Database, error) {
	if in.DB == nil {
		return nil, errors.New("sqlstrikes: DB is nil")
	}
	var version string
	if err := in.DB.QueryRowContext(ctx, "SELECT version()").Scan(&version); err != nil {
		return nil, fmt.Errorf("sqlstrikes: asking the database for its version, want PostgreSQL, MySQL or MariaDB: %w", err)
	}
	switch {
	case strings.HasPrefix(version, "PostgreSQL "):
		return inbox.PostgreSQL, nil
	case version != "" && version[0] >= '0' && version[0] <= '9':
		return inbox.MySQL, nil
	}
	return nil, fmt.Errorf("sqlstrikes: the database is %.64q, want PostgreSQL, MySQL or MariaDB", version)
}

type transaction struct{ *sql.Tx }

func (t transaction) Exec(ctx context.Context, query string, args ...any) (int64, error) {
	return rows(t.ExecContext(ctx, query, args...))
}

func (t transaction) Commit(ctx context.Context) error   { return within(ctx, t.Tx.Commit) }
func (t transaction) Rollback(ctx context.Context) error { return within(ctx, t.Tx.Rollback) }

// within returns what end returns, or the error of ctx if that ends first: database/sql gives both ends of a
// transaction no context, and a server that hangs would keep the handler beyond its time.
func within(ctx context.Context, end func() error) error {
	ended := make(chan error, 1)
	go func() { ended <- end() }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func rows(result sql.Result, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}
