package broker

import (
	"context"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	amqp "github.com/rabbitmq/amqp091-go"
)

// The number of partitions that a queue may have.
const (
	FewestPartitions = 2
	MostPartitions   = 256
)

// PartitionHeader is the header by which the exchange of a partitioned queue routes before RabbitMQ 4.3. Its name does
// not begin with x-, because a headers exchange ignores such headers.
const PartitionHeader = "strikes-partition"

// ModulusHash is the type of exchange that hashes the routing key, in RabbitMQ's core from 4.3 on.
const ModulusHash = "x-modulus-hash"

// HasModulusHash reports whether a broker of version v has ModulusHash. If the version is unknown, it reports false.
func (v Version) HasModulusHash() bool { return !v.Before(4, 3) }

// Partition names a partition of a queue.
func Partition(queue string, i int) string { return fmt.Sprintf("%s.%d", queue, i) }

// Partitions names the n partitions of a queue.
func Partitions(queue string, n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = Partition(queue, i)
	}
	return all
}

// IsPartition reports whether a name is that of a partition of a queue.
func IsPartition(name, queue string) bool {
	number, found := strings.CutPrefix(name, queue+".")
	i, err := strconv.Atoi(number)
	return found && err == nil && i >= 0 && i < MostPartitions && strconv.Itoa(i) == number
}

// HashExchange names the exchange that chooses among n partitions of a queue.
func HashExchange(queue string, n int) string { return fmt.Sprintf("%s.hash%d", queue, n) }

// PartitionValue is the value of the PartitionHeader. It has the number of partitions, so that a message of a publisher
// with another number is returned and not misplaced.
func PartitionValue(i, n int) string { return fmt.Sprintf("%d/%d", i, n) }

// PartitionOf returns the partition, from 0, of a routing key among n: FNV-1a of 32 bits, then the finaliser of
// murmur3. Without that, keys that differ only in their last byte would be spread unevenly.
func PartitionOf(key string, n int) int {
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(key))
	h := sum.Sum32()
	h ^= h >> 16
	h *= 0x85ebca6b
	h ^= h >> 13
	h *= 0xc2b2ae35
	h ^= h >> 16
	return int(h % uint32(n))
}

// MayPartition returns the queue of which a name is a partition by its form; empty: of none.
func MayPartition(name string) (queue string) {
	queue = name[:max(strings.LastIndexByte(name, '.'), 0)]
	if !IsPartition(name, queue) {
		return ""
	}
	return queue
}

// PartitionedBy returns the queue of which a name is a partition, and the number of its partitions; empty: of none. A
// queue with the name of a partition that no exchange chooses is of none: strikes did not declare it.
func PartitionedBy(ctx context.Context, conn *amqp.Connection, name string) (queue string, n int, err error) {
	if queue = MayPartition(name); queue == "" {
		return "", 0, nil
	}
	if leads, err := FindExchange(ctx, conn, queue); leads != Yes {
		return "", 0, UnlessRefused(err)
	}
	n, err = PartitionsOf(ctx, conn, queue)
	if err != nil || !slices.Contains(Partitions(queue, n), name) {
		return "", 0, err
	}
	if chooses, err := FindExchange(ctx, conn, HashExchange(queue, n)); chooses != Yes {
		return "", 0, UnlessRefused(err)
	}
	return queue, n, nil
}

// FindPartitions returns the partitioned queue that a name is of, or whose partition has that name, and the number of
// its partitions. Both are zero for a queue without partitions.
func FindPartitions(ctx context.Context, conn *amqp.Connection, name string) (of string, n int, err error) {
	found, _, err := findQueue(ctx, conn, name, hintAnswers)
	if err := UnlessRefused(err); err != nil {
		return "", 0, err
	}
	if found != No {
		return PartitionedBy(ctx, conn, name)
	}
	if n, err = PartitionsOf(ctx, conn, name); n > 0 {
		of = name
	}
	return of, n, err
}

// PartitionsOf returns the number of partitions of a queue; 0 if it has none. It reads the number from the exchange
// that chooses among them, because a partition may be missing. If no exchange chooses, as after a change that was cut
// off, it counts the queues behind the exchange with the queue's name. Without that exchange they are queues of a user,
// and it returns 0.
func PartitionsOf(ctx context.Context, conn *amqp.Connection, queue string) (n int, err error) {
	var there atomic.Int32
	_, err = askQueues(ctx, conn, hintAnswers, func(_ *amqp.Channel, passive passive) error {
		for i := range MostPartitions {
			if _, err := passive(Partition(queue, i)); err != nil {
				return err
			}
			there.Add(1)
		}
		return nil
	})
	n = int(there.Load())
	if UnlessRefused(err) != nil {
		return 0, err
	}
	leads, unanswered := FindExchange(ctx, conn, queue)
	switch {
	case n == 0 && leads == No: // from RabbitMQ 4.0 on, err may be a refusal though there is no partition: see Passive
		return 0, nil
	case err != nil && !IsAway(err):
		return 0, err
	case n == 0 && leads != Yes || unanswered != nil:
		return 0, UnlessRefused(unanswered)
	}
	if chooses, err := FindExchange(ctx, conn, HashExchange(queue, n)); chooses == Yes || err != nil {
		return n, UnlessRefused(err)
	}
	for other := FewestPartitions; other <= MostPartitions; other++ {
		if chooses, err := FindExchange(ctx, conn, HashExchange(queue, other)); chooses == Yes || err != nil {
			return other, err
		}
	}
	if leads == No {
		return 0, nil
	}
	if plain, _, err := FindQueue(ctx, conn, queue); plain == Yes || err != nil { // the exchange is a user's
		return 0, UnlessRefused(err)
	}
	return n, err
}
