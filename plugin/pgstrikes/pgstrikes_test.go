package pgstrikes

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/internal/inbox/inboxtest"
	"github.com/strikesmq/strikes/internal/servertest"
)

func TestMain(m *testing.M) { os.Exit(inboxtest.Run(m, postgreSQL)) }

var postgreSQL = inboxtest.PostgreSQL("PostgreSQL", func(ctx context.Context, addr, database string,
	readOnly bool) (inboxtest.Pool, error) {
	url := "postgres://postgres@" + addr + "/" + database + "?sslmode=disable"
	if readOnly {
		url += "&default_transaction_read_only=on"
	}
	db, err := pgxpool.New(ctx, url)
	return pool{db}, err
})

func TestInbox(t *testing.T) { inboxtest.Test(t, postgreSQL) }

func TestKilled(t *testing.T) {
	servertest.Long(t)
	inboxtest.TestKilled(t, postgreSQL)
}

func BenchmarkInbox(b *testing.B) { inboxtest.Benchmark(b, postgreSQL) }

type pool struct{ *pgxpool.Pool }

func (p pool) Exec(ctx context.Context, query string) error {
	_, err := p.Pool.Exec(ctx, query)
	return err
}

func (p pool) Int(ctx context.Context, query string) (n int, err error) {
	return n, p.QueryRow(ctx, query).Scan(&n)
}

func (p pool) Handler(in inboxtest.Settings, work inboxtest.Work) consumer.Handler {
	inbox := &Inbox{DB: p.Pool, Queue: in.Queue, Key: in.Key, Wait: in.Wait}
	return inbox.Handler(func(ctx context.Context, t pgx.Tx, d amqp.Delivery) error { return work(ctx, tx{t}, d) })
}

func (p pool) Plain(work inboxtest.Work) consumer.Handler {
	return func(ctx context.Context, d amqp.Delivery) error {
		return pgx.BeginFunc(ctx, p.Pool, func(t pgx.Tx) error { return work(ctx, tx{t}, d) })
	}
}

func (p pool) Forget(ctx context.Context, queue string, keep time.Duration) (int64, error) {
	return (&Inbox{DB: p.Pool, Queue: queue}).Forget(ctx, keep)
}

type tx struct{ pgx.Tx }

func (t tx) Exec(ctx context.Context, query string) error {
	_, err := t.Tx.Exec(ctx, query)
	return err
}

func (t tx) Text(ctx context.Context, query string) (text string, err error) {
	return text, t.QueryRow(ctx, query).Scan(&text)
}

func (t tx) End(ctx context.Context) error { return t.Commit(ctx) }
