package inbox

import (
	"context"
	"time"

	pgx5 "github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/plugin/pgstrikes"
)

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
