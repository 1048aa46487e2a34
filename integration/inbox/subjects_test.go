package inbox

import (
	"context"
	"database/sql"
	"os"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql"
	pgx5 "github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "github.com/lib/pq"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/internal/inbox"
	"github.com/strikesmq/strikes/internal/servers"
	"github.com/strikesmq/strikes/internal/servertest"
	"github.com/strikesmq/strikes/plugin/pgstrikes"
	"github.com/strikesmq/strikes/plugin/sqlstrikes"
)

// postgreSQL is the subject of a driver for PostgreSQL.
func postgreSQL(name string, open Open) Subject {
	return Subject{
		Name: name, Open: open, Store: "postgres", Server: servertest.PostgreSQL,
		Durable: durable(servers.StartPostgreSQL, "-c", "fsync=on"),
		Admin:   "postgres",
		Schema:  inbox.PostgreSQLSchema, LongestID: 2000, Strict: true,
		Waiting:   "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'",
		Impatient: "SET LOCAL lock_timeout = '100ms'",
		Slow:      "SELECT pg_sleep(5)",
		Idle:      "SELECT setting FROM pg_settings WHERE name = 'idle_in_transaction_session_timeout'", // in ms
	}
}

// onMariaDB is the subject of a driver for MySQL, on MariaDB.
func onMariaDB(name string, open Open) Subject {
	return Subject{
		Name: name, Open: open, Store: "mysql", Server: servertest.MariaDB,
		Durable: durable(servers.StartMariaDB, "--innodb-flush-log-at-trx-commit=1"),
		Schema:  inbox.MySQLSchema, LongestID: 255,
		Waiting: "SELECT count(*) FROM information_schema.processlist WHERE db = database() AND " +
			"info LIKE 'INSERT INTO strikes_inbox%'",
		Impatient: "SET innodb_lock_wait_timeout = 1",
		Slow:      "DO sleep(5)",
	}
}

// durable starts a server of its own that writes each COMMIT to the disk.
func durable(start func(context.Context, servers.DatabaseOptions) (*servers.Database, error),
	args ...string) func(testing.TB) string {
	return func(t testing.TB) string {
		t.Helper()
		return servertest.Own(t, start, servers.DatabaseOptions{Args: args}).Addr
	}
}

func openPgx(ctx context.Context, addr, database string, readOnly bool) (Pool, error) {
	url := "postgres://postgres@" + addr + "/" + database + "?sslmode=disable"
	if readOnly {
		url += "&default_transaction_read_only=on"
	}
	db, err := pgxpool.New(ctx, url)
	return pgxPool{db}, err
}

type pgxPool struct{ *pgxpool.Pool }

func (p pgxPool) Exec(ctx context.Context, query string) error {
	_, err := p.Pool.Exec(ctx, query)
	return err
}

func (p pgxPool) Int(ctx context.Context, query string) (n int, err error) {
	return n, p.QueryRow(ctx, query).Scan(&n)
}

func (p pgxPool) Handler(in Settings, work Work) consumer.Handler {
	inbox := &pgstrikes.Inbox{DB: p.Pool, Queue: in.Queue, Key: in.Key, Wait: in.Wait}
	return inbox.Handler(func(ctx context.Context, t pgx5.Tx, d amqp.Delivery) error { return work(ctx, pgxTx{t}, d) })
}

func (p pgxPool) Plain(work Work) consumer.Handler {
	return func(ctx context.Context, d amqp.Delivery) error {
		return pgx5.BeginFunc(ctx, p.Pool, func(t pgx5.Tx) error { return work(ctx, pgxTx{t}, d) })
	}
}

func (p pgxPool) Forget(ctx context.Context, queue string, keep time.Duration) (int64, error) {
	return (&pgstrikes.Inbox{DB: p.Pool, Queue: queue}).Forget(ctx, keep)
}

type pgxTx struct{ pgx5.Tx }

func (t pgxTx) Exec(ctx context.Context, query string) error {
	_, err := t.Tx.Exec(ctx, query)
	return err
}

func (t pgxTx) Text(ctx context.Context, query string) (text string, err error) {
	return text, t.QueryRow(ctx, query).Scan(&text)
}

func (t pgxTx) End(ctx context.Context) error { return t.Commit(ctx) }

func (t pgxTx) Leave(ctx context.Context, query string) error {
	_, err := t.Query(ctx, query)
	return err
}

func pq(s Subject) Subject {
	s.ReadWrite = true
	return s
}

func openPostgreSQL(driver string) Open {
	return func(_ context.Context, addr, database string, readOnly bool) (Pool, error) {
		url := "postgres://postgres@" + addr + "/" + database + "?sslmode=disable"
		if readOnly {
			url += "&default_transaction_read_only=on"
		}
		return open(driver, url)
	}
}

func openMariaDB(settings string) Open {
	return func(_ context.Context, addr, database string, readOnly bool) (Pool, error) {
		dsn := "root@tcp(" + addr + ")/" + database + "?timeout=1m" + settings
		if readOnly {
			dsn += "&" + readOnlySetting() + "=1"
		}
		return open("mysql", dsn)
	}
}

// readOnlySetting has one name in MariaDB and another in MySQL.
func readOnlySetting() string {
	if os.Getenv("STRIKES_MYSQLD") != "" {
		return "transaction_read_only"
	}
	return "tx_read_only"
}

func open(driver, url string) (Pool, error) {
	db, err := sql.Open(driver, url)
	if err == nil {
		db.SetMaxOpenConns(5) // a case that leaks connections hangs
	}
	return sqlPool{db}, err
}

type sqlPool struct{ *sql.DB }

func (p sqlPool) Exec(ctx context.Context, query string) error {
	_, err := p.ExecContext(ctx, query)
	return err
}

func (p sqlPool) Int(ctx context.Context, query string) (n int, err error) {
	return n, p.QueryRowContext(ctx, query).Scan(&n)
}

func (p sqlPool) Handler(in Settings, work Work) consumer.Handler {
	inbox := &sqlstrikes.Inbox{DB: p.DB, Queue: in.Queue, Key: in.Key, Wait: in.Wait}
	return inbox.Handler(func(ctx context.Context, t *sql.Tx, d amqp.Delivery) error { return work(ctx, sqlTx{t}, d) })
}

func (p sqlPool) Plain(work Work) consumer.Handler {
	return func(ctx context.Context, d amqp.Delivery) error {
		t, err := p.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer t.Rollback() // after a Commit it does nothing
		if err := work(ctx, sqlTx{t}, d); err != nil {
			return err
		}
		return t.Commit()
	}
}

func (p sqlPool) Forget(ctx context.Context, queue string, keep time.Duration) (int64, error) {
	return (&sqlstrikes.Inbox{DB: p.DB, Queue: queue}).Forget(ctx, keep)
}

func (p sqlPool) Close() { _ = p.DB.Close() }

type sqlTx struct{ *sql.Tx }

func (t sqlTx) Exec(ctx context.Context, query string) error {
	_, err := t.ExecContext(ctx, query)
	return err
}

func (t sqlTx) Text(ctx context.Context, query string) (text string, err error) {
	return text, t.QueryRowContext(ctx, query).Scan(&text)
}

func (t sqlTx) End(context.Context) error { return t.Commit() }

func (t sqlTx) Leave(ctx context.Context, query string) error {
	_, err := t.QueryContext(ctx, query) //nolint:rowserrcheck,sqlclosecheck // they are left open
	return err
}

// TestNoWork: a consumer refuses a Handler without work before it takes a message.
func TestNoWork(t *testing.T) {
	for name, handler := range map[string]consumer.Handler{
		"pgstrikes":  (&pgstrikes.Inbox{Queue: queue}).Handler(nil),
		"sqlstrikes": (&sqlstrikes.Inbox{Queue: queue}).Handler(nil),
	} {
		t.Run(name, func(t *testing.T) {
			got, err := deliver(t.Context(), patience, handler, message("17"), nil)
			says(t, err, "Handler")
			if got != "" {
				t.Errorf("the message has the outcomes %s", got)
			}
		})
	}
}
