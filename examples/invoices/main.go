// Command invoices writes one invoice for each order of a queue in PostgreSQL, however often the order is delivered.
package main

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/plugin/pgstrikes"
	"github.com/strikesmq/strikes/topology"
)

// schema is the program's own; pgstrikes.Schema is that of the marks.
const schema = `CREATE TABLE IF NOT EXISTS invoices (
	number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	body text NOT NULL
);`

// kept is how long marks are kept: for longer than an order may be in the queue.
const kept = 7 * 24 * time.Hour

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	db, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		return fmt.Errorf("DATABASE_URL: %w", err)
	}
	defer db.Close()
	// The Schema comes first: it lets one process after the other make both tables.
	if _, err := db.Exec(ctx, pgstrikes.Schema+schema); err != nil {
		return fmt.Errorf("making the tables in the database of DATABASE_URL: %w", err)
	}
	dial := consumer.Dialer(os.Getenv("AMQP_URL"), amqp.Config{})
	conn, err := dial(ctx)
	if err != nil {
		return fmt.Errorf("AMQP_URL: %w", err)
	}
	defer conn.Close()
	if err := topology.Declare(ctx, conn, topology.Spec{Queue: "orders"}); err != nil {
		return err
	}
	counts, err := counter.Dial(os.Getenv("REDIS_URL"), nil)
	if err != nil {
		return fmt.Errorf("REDIS_URL: %w", err)
	}
	defer counts.Close()

	inbox := &pgstrikes.Inbox{DB: db, Queue: "orders"}
	var tasks sync.WaitGroup
	defer tasks.Wait()
	tasks.Go(func() { forget(ctx, inbox) })
	orders := consumer.Consumer{Queue: "orders", Counter: counts, Handler: inbox.Handler(write), Logger: slog.Default()}
	fmt.Println("waiting for messages in the queue orders")
	return orders.Run(ctx, dial)
}

// write writes an invoice with tx alone, and returns every error of it. The rest is the inbox's: it marks the order in
// the same transaction, and commits.
func write(ctx context.Context, tx pgx.Tx, d amqp.Delivery) error {
	var number int64
	err := tx.QueryRow(ctx, "INSERT INTO invoices (body) VALUES ($1) RETURNING number", string(d.Body)).Scan(&number)
	if err != nil {
		return err
	}
	fmt.Printf("invoice %d: %s\n", number, d.Body)
	return nil
}

// forget deletes old marks once an hour.
func forget(ctx context.Context, inbox *pgstrikes.Inbox) {
	ticker := time.NewTicker(time.Hour)
	defer ticker.Stop()
	for {
		if _, err := inbox.Forget(ctx, kept); err != nil && ctx.Err() == nil {
			log.Print(err)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}
