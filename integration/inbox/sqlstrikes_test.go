package inbox

import (
	"context"
	"database/sql"
	"os"
	"time"

	_ "github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "github.com/lib/pq"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/plugin/sqlstrikes"
)

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
