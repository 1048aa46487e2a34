package topology

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/internal/shell"
)

// partitionSteps declare a partitioned queue: the fanout exchange Queue, bound to an exchange of type hash that is
// bound to the partitions. The fanout comes last, so that no message is published before all partitions are there.
func partitionSteps(s Spec, hash string) []step {
	chooser := broker.HashExchange(s.Queue, s.Partitions)
	all := append(deadLetterSteps(s), exchangeStep(chooser, hash, nil))
	for i := range s.Partitions {
		name := broker.Partition(s.Queue, i)
		b := Binding{Exchange: chooser}
		if hash == amqp.ExchangeHeaders {
			b.Arguments = amqp.Table{"x-match": "all", broker.PartitionHeader: broker.PartitionValue(i, s.Partitions)}
		}
		all = append(all, queueStep(name, s.arguments()), bindStep(name, b))
	}
	return append(all, exchangeStep(s.Queue, amqp.ExchangeFanout, nil), step{
		what: fmt.Sprintf("binding of exchange %q to exchange %q", chooser, s.Queue),
		do:   func(ch *amqp.Channel) error { return ch.ExchangeBind(chooser, "", s.Queue, false, nil) },
	})
}

// hashFor returns the type of the exchange that chooses the partition. It is an error if a queue named Queue exists, an
// exchange of that name with another type, or another number of partitions. An exchange that exists keeps its type
// through an upgrade of the broker, because the hashes differ.
func hashFor(ctx context.Context, conn *amqp.Connection, s Spec) (string, error) {
	plain, q, err := broker.FindQueue(ctx, conn, s.Queue)
	if err == nil && plain == broker.Yes {
		return "", fmt.Errorf("%w: %q exists as a queue, with %d messages: delete it (rabbitmqctl delete_queue), or choose "+
			"another name", ErrRefused, s.Queue, q.Messages)
	}
	if leads, err := broker.FindExchange(ctx, conn, s.Queue); leads == broker.Yes && err == nil { // maybe of another type
		if err := declare(ctx, conn, []step{exchangeStep(s.Queue, amqp.ExchangeFanout, nil)}); err != nil {
			return "", err
		}
	}
	chooser := broker.HashExchange(s.Queue, s.Partitions)
	same, exchangeErr := broker.FindExchange(ctx, conn, chooser)
	if err := errors.Join(broker.UnlessRefused(err), broker.UnlessRefused(exchangeErr)); err != nil {
		return "", err
	}
	kind := amqp.ExchangeHeaders
	if broker.VersionOf(conn).HasModulusHash() {
		kind = broker.ModulusHash
	}
	if same != broker.Yes {
		if left, err := partitionLeft(ctx, conn, s); left != "" || err != nil {
			return "", cmp.Or(err, fmt.Errorf("%w: %q exists and the exchange %q does not: the queue has another "+
				"number of partitions. To change it, stop the publishers, let consumers empty all partitions, stop them, and "+
				"run strikes declare %s --partitions %d --repartition", ErrRefused, left, chooser, shell.Operands(s.Queue),
				s.Partitions))
		}
		return kind, forgetChoosers(ctx, conn, s)
	}
	var reply *amqp.Error
	err = broker.OnChannel(ctx, conn, func(ch *amqp.Channel) error { // passive, it would not compare the type
		return ch.ExchangeDeclare(chooser, amqp.ExchangeHeaders, true, false, false, false, nil)
	})
	switch {
	case err == nil:
		return amqp.ExchangeHeaders, nil
	case errors.As(err, &reply) && reply.Code == amqp.PreconditionFailed:
		return kind, nil
	}
	return "", err
}

// partitionLeft names a partition that exists if their number is not that of the Spec; else it returns "". If a change
// was cut off and no exchange chooses among the partitions, their number is the number of those that exist. Their
// messages may need consumers.
func partitionLeft(ctx context.Context, conn *amqp.Connection, s Spec) (string, error) {
	n, err := broker.PartitionsOf(ctx, conn, s.Queue)
	for i := 0; i < n && n != s.Partitions && err == nil; i++ {
		var found broker.Answer
		if found, _, err = broker.FindQueue(ctx, conn, broker.Partition(s.Queue, i)); found != broker.No {
			return broker.Partition(s.Queue, i), broker.UnlessRefused(err)
		}
	}
	return "", err
}

// refusePartitioned refuses a queue that has partitions. Beside them, a message to the exchange would be in a
// partition, and a message to the queue itself in the queue. Consumers of one would not see the other.
func refusePartitioned(ctx context.Context, conn *amqp.Connection, queue string) error {
	first := broker.Partition(queue, 0)
	if broker.CheckName(first) != nil { // a queue with such a long name has none
		return nil
	}
	if plain, _, _ := broker.FindQueue(ctx, conn, queue); plain == broker.Yes { // PartitionsOf may ask 255 times
		if exists, _, err := broker.FindQueue(ctx, conn, first); exists != broker.Yes {
			return broker.UnlessRefused(err)
		}
	}
	n, err := broker.PartitionsOf(ctx, conn, queue)
	if n == 0 || err != nil {
		return err
	}
	if chooses, err := broker.FindExchange(ctx, conn, broker.HashExchange(queue, n)); chooses != broker.Yes {
		return broker.UnlessRefused(err)
	}
	return fmt.Errorf("%w: it has %d partitions: declare it with as many (strikes declare --partitions %d), or choose "+
		"another name", ErrRefused, n, n)
}

// lockWait is how long a change of partitions waits for others. A change of 256 partitions takes a second, and all
// processes of a fleet may start at once.
const lockWait = time.Minute

// lockOf names the queue that is the lock of a change of partitions.
func lockOf(queue string) string { return queue + ".strikes-lock" }

// alone runs change while no other call of Declare or Repartition changes the partitions of the queue. Two at a time
// could leave the fanout bound to the exchanges of both, and each message would be in two partitions. The lock is a
// queue of one consumer that is exclusive to the connection, so it ends with the process.
func alone(ctx context.Context, conn *amqp.Connection, queue string, change func() error) error {
	again := backoff.NewExponentialBackOff()
	again.InitialInterval, again.MaxInterval = 50*time.Millisecond, time.Second
	for begun := time.Now(); ; {
		locked := false
		err := broker.OnChannel(ctx, conn, func(ch *amqp.Channel) error {
			if err := lock(ch, lockOf(queue)); err != nil {
				return err
			}
			locked = true
			err := change()
			_, unlockErr := ch.QueueDelete(lockOf(queue), false, false, false)
			return cmp.Or(err, unlockErr)
		})
		switch {
		case locked:
			return err
		case !isLocked(err):
			return fmt.Errorf("topology: lock the partitions of queue %q by the exclusive queue %q, which the user must be "+
				"able to configure and read: %w", queue, lockOf(queue), err)
		case time.Since(begun) > lockWait:
			return fmt.Errorf("topology: queue %q: %w: another process changes its partitions: %w", queue, ErrRefused, err)
		}
		var reply *amqp.Error
		if errors.As(err, &reply) && reply.Code == amqp.ResourceLocked { // this connection does not have the lock
			if err := broker.RefuseStray(ctx, conn, lockOf(queue)); err != nil {
				return fmt.Errorf("topology: lock the partitions of queue %q: %w", queue, err)
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(again.NextBackOff()):
		}
	}
}

// lock declares the queue that is the lock, and consumes it, because the connection may be shared. A queue that could
// not be consumed does not stay until the connection ends.
func lock(ch *amqp.Channel, name string) error {
	unused := time.Second.Milliseconds()
	_, err := ch.QueueDeclare(name, false, false, true, false, amqp.Table{"x-queue-type": "classic", "x-expires": unused})
	if err == nil {
		_, err = ch.Consume(name, "", true, true, false, false, nil)
	}
	return err
}

// isLocked reports whether an error of lock says that another call has the lock, or has just given it back.
func isLocked(err error) bool {
	var reply *amqp.Error
	return errors.As(err, &reply) && (reply.Code == amqp.ResourceLocked || reply.Code == amqp.NotFound ||
		strings.Contains(reply.Reason, "exclusive use"))
}

// forgetChoosers deletes the exchanges that chose among other numbers of partitions, which are gone. Otherwise the
// fanout would lead to both.
func forgetChoosers(ctx context.Context, conn *amqp.Connection, s Spec) error {
	if left, err := broker.FindExchange(ctx, conn, s.Queue); left == broker.No || err != nil {
		return broker.UnlessRefused(err)
	}
	return broker.OnChannel(ctx, conn, func(ch *amqp.Channel) error {
		for n := broker.FewestPartitions; n <= broker.MostPartitions; n++ {
			if err := ch.ExchangeDelete(broker.HashExchange(s.Queue, n), false, n < broker.MostPartitions); err != nil {
				return err // the last one waits for the broker
			}
		}
		return nil
	})
}
