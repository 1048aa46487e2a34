// Command fence books the orders of a queue in a database, which refuses a consumer that has lost its message.
package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"

	amqp "github.com/rabbitmq/amqp091-go"
	"go.etcd.io/bbolt"

	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/topology"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	db, err := bbolt.Open(os.Getenv("DATABASE"), 0o600, nil)
	if err != nil {
		return err
	}
	defer db.Close()
	dial := consumer.Dialer(os.Getenv("AMQP_URL"), amqp.Config{})
	conn, err := dial(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := topology.Declare(ctx, conn, topology.Spec{Queue: "bookings"}); err != nil {
		return err
	}
	counts, err := counter.Dial(os.Getenv("REDIS_URL"), nil)
	if err != nil {
		return err
	}
	defer counts.Close()

	bookings := consumer.Consumer{
		Queue:   "bookings",
		Counter: counts,
		Handler: func(ctx context.Context, d amqp.Delivery) error {
			attempt, _ := consumer.AttemptFrom(ctx)
			if err := save(db, d.MessageId, d.Body, attempt.Fence); err != nil {
				return err
			}
			fmt.Printf("booked %s\n", d.Body)
			return nil
		},
	}
	return bookings.Run(ctx, dial)
}

var errOldFence = errors.New("another consumer has the message now")

// save writes a booking unless a later delivery of its message has written it. In SQL:
//
//	INSERT INTO bookings (id, text, fence) VALUES ($1, $2, $3)
//	ON CONFLICT (id) DO UPDATE SET text = $2, fence = $3 WHERE bookings.fence <= $3
func save(db *bbolt.DB, id string, text []byte, fence int64) error {
	return db.Update(func(tx *bbolt.Tx) error {
		bookings, err := tx.CreateBucketIfNotExists([]byte("bookings"))
		if err != nil {
			return err
		}
		if old := bookings.Get([]byte(id)); old != nil &&
			fence < int64(binary.BigEndian.Uint64(old)) { //nolint:gosec // it was written as an int64
			return errOldFence
		}
		row := binary.BigEndian.AppendUint64(nil, uint64(fence)) //nolint:gosec // it is read as an int64
		return bookings.Put([]byte(id), append(row, text...))
	})
}
