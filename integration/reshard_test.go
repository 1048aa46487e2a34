package integration

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/internal/servers"
	"github.com/strikesmq/strikes/internal/servertest"
	"github.com/strikesmq/strikes/topology"
)

// TestSlotMovesWhileMessagesFail: a Redis Cluster moves the slot of a queue to another master, key by key. Meanwhile it
// refuses the scripts whose keys are on both masters (TRYAGAIN). Their steps are repeated, and no count is lost.
func TestSlotMovesWhileMessagesFail(t *testing.T) {
	servertest.Long(t)
	t.Parallel()
	cluster := startRedisCluster(t, 5*time.Second)
	queue := declared(t, topology.Quorum)
	const messages = 100
	publish(t, queue, "m", messages)
	var ran, held atomic.Int64
	stop := runConsumer(t, consumer.Consumer{
		Queue: queue, Counter: dialStore(t, servertest.Patient(t, cluster.URL)), Concurrency: 4, Prefetch: 40,
		Backoff: func(int) time.Duration { return time.Second },
		Observer: observer(func(e consumer.Event) {
			if e.Outcome == consumer.OutcomeHold {
				held.Add(1)
			}
		}),
		Handler: func(context.Context, amqp.Delivery) error { ran.Add(1); return errors.New("boom") },
	}, dialer(t))
	eventually(t, "a counted failure", func() bool { return ran.Load() > 40 })
	moveSlot(t, cluster, queue, func(from, to *servers.Redis, slot int64) {
		host, port, err := net.SplitHostPort(to.Addr)
		need(t, err)
		moved := client(t, from)
		for n := 1; ; n = 100 { // one key, and all others after a step was refused
			keys := moved.ClusterGetKeysInSlot(t.Context(), int(slot), n).Val()
			if len(keys) == 0 {
				break
			}
			command := []any{"MIGRATE", host, port, "", 0, 5000, "KEYS"}
			for _, key := range keys {
				command = append(command, key)
			}
			do(t, moved, command...)
			eventually(t, "a step that waits", func() bool { return held.Load() > 0 })
		}
		id := client(t, to).Do(t.Context(), "CLUSTER", "MYID").Val()
		for _, node := range []*servers.Redis{to, from} {
			ask(t, client(t, node), fmt.Sprintf("CLUSTER SETSLOT %d NODE %s", slot, id))
		}
	})
	eventually(t, "the dead letters", func() bool { return queueDepth(t, queue+".dlq") == messages })
	stop()
	if got := ran.Load(); got != 4*messages {
		t.Errorf("%d attempts at %d messages, want 4 each", got, messages)
	}
}
