package topology

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/internal/printable"
	"github.com/strikesmq/strikes/internal/shell"
)

// partitionSteps declare a partitioned queue whose dead-letter route is there: the fanout exchange Queue, bound to an
// exchange of type hash that is bound to the partitions. The fanout comes last, so that no message is published before
// all partitions are there.
func partitionSteps(s Spec, hash string) []step {
	chooser := broker.HashExchange(s.Queue, s.Partitions)
	all := []step{exchangeStep(chooser, hash, nil)}
	for i := range s.Partitions {
		name := broker.Partition(s.Queue, i)
		var args amqp.Table
		if hash == amqp.ExchangeHeaders {
			args = amqp.Table{"x-match": "all", broker.PartitionHeader: broker.PartitionValue(i, s.Partitions)}
		}
		all = append(all, queueStep(name, s.arguments()), bindStep(name, chooser, "", args))
	}
	return append(all, exchangeStep(s.Queue, amqp.ExchangeFanout, nil), step{
		what: fmt.Sprintf("binding of exchange %q to exchange %q", chooser, s.Queue),
		do:   func(ch *amqp.Channel) error { return ch.ExchangeBind(chooser, "", s.Queue, false, nil) },
	})
}

// hashFor returns the type of the exchange that chooses the partition. It is an error if a queue named Queue exists, an
// exchange of that name with another type, another number of partitions, or a queue of a user in the place of one. An
// exchange that exists keeps its type through an upgrade of the broker, because the hashes differ.
func hashFor(ctx context.Context, conn *amqp.Connection, s Spec) (string, error) {
	plain, q, err := broker.FindQueue(ctx, conn, s.Queue)
	if err == nil && plain == broker.Yes {
		return "", fmt.Errorf("%w: %q exists as a queue, with %s: delete it once it is empty "+
			"(rabbitmqctl delete_queue --if-empty %s), or choose another name", ErrRefused, s.Queue,
			printable.Plural(q.Messages, "message"), shell.Operands(s.Queue))
	}
	if broker.IsAway(err) {
		return "", fmt.Errorf("%q exists as a queue, and its node is down: start the node, or choose another name: %w",
			s.Queue, err)
	}
	if leads, err := broker.FindExchange(ctx, conn, s.Queue); leads == broker.Yes && err == nil { // maybe of another type
		if err := declare(ctx, conn, []step{exchangeStep(s.Queue, amqp.ExchangeFanout, nil)}); err != nil {
			return "", err
		}
	}
	if err := broker.UnlessRefused(err); err != nil {
		return "", err
	}
	kind, err := chooserKind(ctx, conn, s.Queue, s.Partitions)
	if kind == "" && err == nil {
		err = refuseLeft(ctx, conn, s)
	}
	if err == nil {
		err = refuseForeign(ctx, conn, s, s.Partitions)
	}
	if kind == "" && err == nil {
		kind, err = hashKinds(conn)[0], forgetChoosers(ctx, conn, s)
	}
	return kind, err
}

// hashKinds returns the types that an exchange which chooses the partition may have. A new one gets the first.
func hashKinds(conn *amqp.Connection) []string {
	if broker.VersionOf(conn).HasModulusHash() {
		return []string{broker.ModulusHash, amqp.ExchangeHeaders}
	}
	return []string{amqp.ExchangeHeaders}
}

// chooserKind returns the type of the exchange that chooses among n partitions of a queue, or "" if there is none. An
// exchange of another type with its name is a user's, and an error.
func chooserKind(ctx context.Context, conn *amqp.Connection, queue string, n int) (string, error) {
	name := broker.HashExchange(queue, n)
	found, err := broker.FindExchange(ctx, conn, name)
	if found != broker.Yes {
		return "", broker.UnlessRefused(err)
	}
	for _, kind := range hashKinds(conn) { // a passive declaration would not compare the type
		if err = declare(ctx, conn, []step{exchangeStep(name, kind, nil)}); err == nil {
			return kind, nil
		}
	}
	return "", err
}

// refuseLeft refuses if partitions exist and their number is not that of the Spec. If no exchange chooses among them,
// their number is the number of those that exist: a change was cut off, or the exchanges were deleted. Their messages
// may need consumers.
func refuseLeft(ctx context.Context, conn *amqp.Connection, s Spec) error {
	n, err := broker.PartitionsOf(ctx, conn, s.Queue)
	if err != nil || n == s.Partitions {
		return err
	}
	for i := 0; ; i++ {
		found, q, err := findPartition(ctx, conn, s, i)
		switch {
		case err != nil:
			return err
		case found == broker.Yes && n > 0:
			return fmt.Errorf("%w: %q exists and the exchange %q does not: the queue has another number of partitions. To "+
				"change it, stop the publishers, let consumers empty all partitions, stop them, and run "+
				"strikes declare --partitions %d --repartition %s", ErrRefused, q.Name, broker.HashExchange(s.Queue, s.Partitions),
				s.Partitions, shell.Operands(s.Queue))
		case found == broker.Yes || i < n:
		case n > 0 || i == 0 || i == s.Partitions:
			return nil
		default:
			return fmt.Errorf("%w: the exchanges of the queue were deleted, and its partitions are left (%d): declare the "+
				"queue with its former number of partitions, or drain and delete the partitions", ErrRefused, i)
		}
	}
}

// findPartition looks for partition i. It reports No for a queue with other arguments, because that is a user's.
func findPartition(ctx context.Context, conn *amqp.Connection, s Spec, i int) (found broker.Answer, q amqp.Queue,
	err error) {
	name := broker.Partition(s.Queue, i)
	found, q, err = broker.FindQueue(ctx, conn, name)
	if found == broker.Yes {
		if err = broker.OnChannel(ctx, conn, queueStep(name, s.arguments()).do); err != nil {
			found, err = broker.No, broker.UnlessRefused(err)
		}
	}
	return found, q, err
}

// refuseForeign returns an error if one of the n partitions exists with other arguments. Call it before anything is
// declared or deleted.
func refuseForeign(ctx context.Context, conn *amqp.Connection, s Spec, n int) error {
	for _, name := range broker.Partitions(s.Queue, n) {
		if found, _, _ := broker.FindQueue(ctx, conn, name); found == broker.No {
			continue
		}
		if err := declare(ctx, conn, []step{queueStep(name, s.arguments())}); err != nil {
			return err
		}
	}
	return nil
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
		return broker.UnlessRefused(err) // a user without any permission on the name may not declare it either
	}
	if chooses, err := broker.FindExchange(ctx, conn, broker.HashExchange(queue, n)); chooses != broker.Yes {
		return broker.UnlessRefused(err)
	}
	return fmt.Errorf("%w: it has %d partitions: declare it with as many (strikes declare --partitions %d %s), or choose "+
		"another name", ErrRefused, n, n, shell.Operands(queue))
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
		err := broker.OnChannel(context.WithoutCancel(ctx), conn, func(ch *amqp.Channel) error { // change has ctx
			if err := lock(ch, lockOf(queue)); err != nil {
				return err
			}
			locked = true
			err := change()
			_, _ = ch.QueueDelete(lockOf(queue), false, false, false) // else it expires: the change is made either way
			return err
		})
		switch {
		case locked:
			return err
		case broker.CutRefusal(err, conn.Config.Vhost+queue):
			return fmt.Errorf("topology: queue %q: %w: another process changes its partitions, or the user may not configure "+
				"the exclusive queue %q; the broker ended the connection with its refusal, so run this again: %w", queue,
				ErrRefused, lockOf(queue), err)
		case !isLocked(err):
			return fmt.Errorf("topology: lock the partitions of queue %q by the exclusive queue %q, which the user must be "+
				"able to configure and read: %w", queue, lockOf(queue), err)
		case time.Since(begun) > lockWait:
			return fmt.Errorf("topology: queue %q: %w: another process changes its partitions: %w", queue, ErrRefused, err)
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
// fanout would lead to both. The bindings went with the partitions, so an exchange that has one is a user's.
func forgetChoosers(ctx context.Context, conn *amqp.Connection, s Spec) error {
	if left, err := broker.FindExchange(ctx, conn, s.Queue); left == broker.No || err != nil {
		return broker.UnlessRefused(err)
	}
	for n := broker.FewestPartitions; n <= broker.MostPartitions; n++ {
		kind, err := chooserKind(ctx, conn, s.Queue, n)
		if err != nil {
			return err
		}
		if kind == "" {
			continue
		}
		name := broker.HashExchange(s.Queue, n)
		if err := broker.OnChannel(ctx, conn, func(ch *amqp.Channel) error {
			return ch.ExchangeDelete(name, true, false)
		}); err != nil {
			return fmt.Errorf("delete exchange %q, whose partitions are gone: %w; delete it, or choose another name", name, err)
		}
	}
	return nil
}
