package topology

import (
	"context"
	"errors"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/internal/printable"
)

// Repartition changes the number of partitions of a queue to s.Partitions. It refuses unless every partition is empty
// and has no consumer. It asks no store. So before you call it, make sure that no lane of a partition is blocked
// (counter.Counter.BlockedLanes) and that no consumer is paused (counter.Admin.State). The command strikes declare
// --repartition does that. Otherwise replays come into another partition, and the consumer goes on with the former
// number. Before you lower the number, make sure that no quorum partition keeps rejected messages for its dead-letter
// route: they are deleted with the partition. AMQP does not count them. The management API does (messages_dlx), but up
// to 10 s late, so wait for 12 s first, as strikes declare does. Afterwards consumers need the new number, and before
// RabbitMQ 4.3 publishers too.
//
// While it works, the broker returns messages to their publishers as unroutable; none is misplaced. Partitions beyond
// s.Partitions are deleted. On RabbitMQ 4.3 and later the broker chooses the partition afterwards; so the same number
// changes a queue that was declared before an upgrade. Once Repartition has begun to delete, ctx does not end it. After
// an error the queue is as before, unless the error says otherwise; run Repartition again.
func Repartition(ctx context.Context, conn *amqp.Connection, s Spec) error {
	if err := s.Validate(); err != nil {
		return err
	}
	s = s.withDefaults()
	if err := refuseLong(conn, s); err != nil {
		return err
	}
	if err := alone(ctx, conn, s.Queue, func() error { return repartition(ctx, conn, s) }); err != nil {
		return fmt.Errorf("topology: change queue %q to %d partitions: %w", s.Queue, s.Partitions, err)
	}
	return nil
}

// changeWait bounds a change that an interrupt does not end, and then the return to the former number.
const changeWait = 5 * time.Minute

func repartition(ctx context.Context, conn *amqp.Connection, s Spec) error {
	before := s
	n, err := broker.PartitionsOf(ctx, conn, s.Queue)
	if before.Partitions = n; n == 0 && err == nil {
		err = fmt.Errorf("%w: it has no partitions; declare it with them", ErrRefused)
	}
	if err != nil {
		return err
	}
	kind := hashKinds(conn)[0]
	hash := kind
	chooser, err := broker.FindExchange(ctx, conn, broker.HashExchange(s.Queue, n))
	if err == nil && chooser == broker.Yes { // else an earlier call ended early
		hash, err = hashFor(ctx, conn, before)
	}
	if err == nil {
		_, err = chooserKind(ctx, conn, s.Queue, s.Partitions)
	}
	if err == nil {
		err = refuseForeign(ctx, conn, s, max(n, s.Partitions))
	}
	if err != nil {
		return err
	}
	all, err := atRest(ctx, conn, s, n)
	if err != nil {
		return err
	}
	// Declare the dead-letter route before the exchange is deleted. If the broker refuses it, messages still reach the
	// partitions.
	if err := declare(ctx, conn, existingFirst(ctx, conn, deadLetterSteps(s))); err != nil {
		return err
	}
	// An interrupt must not leave the queue without the exchange.
	lasting := context.WithoutCancel(ctx)
	ctx, cancel := context.WithTimeout(lasting, changeWait)
	defer cancel()
	// The exchange is deleted and not unbound: if this process dies, no two of them can lead to partitions.
	forget := func(ch *amqp.Channel) error {
		return errors.Join(ch.ExchangeDelete(broker.HashExchange(s.Queue, n), false, false),
			ch.ExchangeDelete(broker.HashExchange(s.Queue, s.Partitions), false, false))
	}
	if err = broker.OnChannel(ctx, conn, forget); err == nil {
		for i := 0; i < all && err == nil; i++ {
			err = arrived(ctx, conn, broker.Partition(s.Queue, i))
		}
		if err == nil {
			err = declare(ctx, conn, partitionSteps(s, kind))
		}
	}
	if err != nil {
		ctx, cancel := context.WithTimeout(lasting, changeWait)
		defer cancel()
		restoreErr := broker.OnChannel(ctx, conn, forget)
		if restoreErr == nil {
			restoreErr = declare(ctx, conn, partitionSteps(before, hash))
		}
		if restoreErr != nil { // not an ErrRefused, because the queue is not as before
			return fmt.Errorf("%s\nno message reaches the queue until this command is run again: %w", err.Error(), restoreErr)
		}
		return err
	}
	for i := all - 1; i >= s.Partitions; i-- { // quorum queues know no if-empty
		found, q, err := findPartition(ctx, conn, s, i)
		if err == nil && found == broker.Yes && q.Messages+q.Consumers > 0 {
			err = fmt.Errorf("the queue has the new number, and %s, so it is left: drain and delete it", inUse(q))
		}
		if err == nil && found == broker.Yes {
			err = broker.OnChannel(ctx, conn, func(ch *amqp.Channel) error {
				_, err := ch.QueueDelete(q.Name, false, false, false)
				return err
			})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// atRest returns an error if a partition has messages or consumers, else the number of partitions. That is more than n
// if an earlier change ended early.
func atRest(ctx context.Context, conn *amqp.Connection, s Spec, n int) (all int, err error) {
	for ; ; all++ {
		found, q, err := findPartition(ctx, conn, s, all)
		switch {
		case err != nil:
			return all, err
		case found == broker.No && all >= n:
			return all, nil
		case q.Messages+q.Consumers > 0:
			return all, fmt.Errorf("%w: %s: stop the publishers, let the consumers empty all partitions, and stop them",
				ErrRefused, inUse(q))
		}
	}
}

// arrived returns an error if a partition to which nothing is routed any more has messages or consumers. A quorum queue
// counts a message only once it is on its disk. The begin of a consumer is written after all messages before it.
func arrived(ctx context.Context, conn *amqp.Connection, partition string) error {
	if found, _, err := broker.FindQueue(ctx, conn, partition); found == broker.No || err != nil {
		return err
	}
	return broker.OnChannel(ctx, conn, func(ch *amqp.Channel) error {
		const tag = "strikes-repartition"
		if err := ch.Qos(1, 0, false); err != nil {
			return err
		}
		deliveries, err := ch.Consume(partition, tag, false, false, false, false, nil)
		if err != nil {
			return err
		}
		q, err := broker.Passive(ch, partition)
		if err == nil {
			err = ch.Cancel(tag, false)
		}
		if err != nil {
			return err
		}
		for range deliveries { // it returns with the channel
			q.Messages++
		}
		if q.Consumers--; q.Messages+q.Consumers > 0 {
			return fmt.Errorf("%w: %s, which arrived meanwhile: stop the publishers and consumers, and run this again",
				ErrRefused, inUse(q))
		}
		return nil
	})
}

func inUse(q amqp.Queue) string {
	return fmt.Sprintf("partition %q has %s and %s", q.Name, printable.Plural(q.Messages, "message"),
		printable.Plural(q.Consumers, "consumer"))
}
