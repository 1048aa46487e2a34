package sqlstrikes

import (
	"context"
	"database/sql"
	"os"
	"strings"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "github.com/lib/pq"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/internal/inbox/inboxtest"
	"github.com/strikesmq/strikes/internal/servertest"
)

func TestMain(m *testing.M) { os.Exit(inboxtest.Run(m, append(others, postgreSQL, mariaDB)...)) }

var (
	postgreSQL = inboxtest.PostgreSQL("PostgreSQL", postgres("pgx"))
	mariaDB    = inboxtest.MariaDB("MariaDB", maria(""))

	// Other drivers and settings of the same databases. With clientFoundRows, MariaDB counts the rows that a statement
	// found, not those that it changed.
	others = []inboxtest.Subject{
		pq(inboxtest.PostgreSQL("PostgreSQL with pq", postgres("postgres"))),
		inboxtest.MariaDB("MariaDB with clientFoundRows", maria("&clientFoundRows=true&interpolateParams=true")),
	}
)

func pq(s inboxtest.Subject) inboxtest.Subject {
	s.ReadWrite = true
	return s
}

func postgres(driver string) inboxtest.Open {
	return func(_ context.Context, addr, database string, readOnly bool) (inboxtest.Pool, error) {
		url := "postgres://postgres@" + addr + "/" + database + "?sslmode=disable"
		if readOnly {
			url += "&default_transaction_read_only=on"
		}
		return open(driver, url)
	}
}

func maria(settings string) inboxtest.Open {
	return func(_ context.Context, addr, database string, readOnly bool) (inboxtest.Pool, error) {
		dsn := "root@tcp(" + addr + ")/" + database + "?timeout=1m" + settings
		if readOnly {
			dsn += "&tx_read_only=1"
		}
		return open("mysql", dsn)
	}
}

func open(driver, url string) (inboxtest.Pool, error) {
	db, err := sql.Open(driver, url)
	if err == nil {
		db.SetMaxOpenConns(5) // a case that leaks connections hangs
	}
	return pool{db}, err
}

func TestInbox(t *testing.T) {
	for _, s := range append(others, postgreSQL, mariaDB) {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			inboxtest.Test(t, s)
		})
	}
}

func TestKilled(t *testing.T) {
	servertest.Long(t)
	inboxtest.TestKilled(t, postgreSQL)
	inboxtest.TestKilled(t, mariaDB)
}

func BenchmarkInbox(b *testing.B) {
	for _, s := range []inboxtest.Subject{postgreSQL, mariaDB} {
		b.Run(s.Name, func(b *testing.B) { inboxtest.Benchmark(b, s) })
	}
}

// TestNotADatabase: an Inbox without a database, or with one that does not answer, counts no attempt.
func TestNotADatabase(t *testing.T) {
	closed, err := sql.Open("pgx", "postgres://127.0.0.1:1/none")
	if err != nil {
		t.Fatal(err)
	}
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	for want, db := range map[string]*sql.DB{"DB is nil": nil, "asking the database for its version": closed} {
		in := &Inbox{DB: db, Queue: "invoices"}
		if _, err := in.Forget(t.Context(), time.Hour); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Forget: %v, want %q", err, want)
		}
	}
}

type pool struct{ *sql.DB }

func (p pool) Exec(ctx context.Context, query string) error {
	_, err := p.ExecContext(ctx, query)
	return err
}

func (p pool) Int(ctx context.Context, query string) (n int, err error) {
	return n, p.QueryRowContext(ctx, query).Scan(&n)
}

func (p pool) Handler(in inboxtest.Settings, work inboxtest.Work) consumer.Handler {
	inbox := &Inbox{DB: p.DB, Queue: in.Queue, Key: in.Key, Wait: in.Wait}
	return inbox.Handler(func(ctx context.Context, t *sql.Tx, d amqp.Delivery) error { return work(ctx, tx{t}, d) })
}

func (p pool) Plain(work inboxtest.Work) consumer.Handler {
	return func(ctx context.Context, d amqp.Delivery) error {
		t, err := p.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer t.Rollback() // after a Commit it does nothing
		if err := work(ctx, tx{t}, d); err != nil {
			return err
		}
		return t.Commit()
	}
}

func (p pool) Forget(ctx context.Context, queue string, keep time.Duration) (int64, error) {
	return (&Inbox{DB: p.DB, Queue: queue}).Forget(ctx, keep)
}

func (p pool) Close() { _ = p.DB.Close() }

type tx struct{ *sql.Tx }

func (t tx) Exec(ctx context.Context, query string) error {
	_, err := t.ExecContext(ctx, query)
	return err
}

func (t tx) Text(ctx context.Context, query string) (text string, err error) {
	return text, t.QueryRowContext(ctx, query).Scan(&text)
}

func (t tx) End(context.Context) error { return t.Commit() }
