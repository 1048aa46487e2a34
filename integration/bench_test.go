package integration

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/internal/bench"
	"github.com/strikesmq/strikes/publisher"
)

func benchOptions(t *testing.T) bench.Options {
	url := brokerURL(t)
	return bench.Options{
		Dial:          consumer.Dialer(url, amqp.Config{}),
		DialPublisher: publisher.BufferedDialer(url, amqp.Config{}),
		RedisURL:      redisURL(t), Name: "bench-" + uuid.NewString(), Messages: 100, Rounds: 1, Live: 1000,
	}
}

// TestBenchLeavesQueuesAlone gives it a queue of somebody's in the way.
func TestBenchLeavesQueuesAlone(t *testing.T) {
	o := benchOptions(t)
	o.Only = []string{bench.Success}
	conn, err := amqp.Dial(brokerURL(t))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ch, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	queue := o.Name + "-2"
	if _, err := ch.QueueDeclare(queue, true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	_, err = bench.Run(t.Context(), o)
	if err == nil || !strings.Contains(err.Error(), queue) || !strings.Contains(err.Error(), "exists") {
		t.Errorf("the error is %v", err)
	}
	if _, err := ch.QueueDelete(queue, false, false, false); err != nil {
		t.Errorf("the queue is gone: %v", err)
	}
	noQueue(t, conn, o.Name+"-1")
}

// TestBenchInterrupted is stopped at various moments, and must leave no queue.
func TestBenchInterrupted(t *testing.T) {
	for _, after := range []int{1, 3, 6} {
		o := benchOptions(t)
		o.Only = []string{bench.Failing}
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		last := 0
		o.Progress = func(done, _ int, _ string) {
			if last = done + 1; last == after {
				time.AfterFunc(30*time.Millisecond, stop) // in the middle of a contestant, mostly
			}
		}
		if _, err := bench.Run(ctx, o); !errors.Is(err, context.Canceled) {
			t.Errorf("stopped in step %d, it ended with %v", after, err)
		}
		conn, err := amqp.Dial(brokerURL(t))
		if err != nil {
			t.Fatal(err)
		}
		for i := range last {
			name := o.Name + "-" + string(rune('1'+i))
			noQueue(t, conn, name)
			noQueue(t, conn, name+".dlq")
		}
		conn.Close()
	}
}

func noQueue(t *testing.T, conn *amqp.Connection, name string) {
	t.Helper()
	ch, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	defer ch.Close()
	var reply *amqp.Error
	if _, err := ch.QueueDeclarePassive(name, false, false, false, false, nil); !errors.As(err, &reply) || reply.Code != amqp.NotFound {
		t.Errorf("queue %s is left: %v", name, err)
	}
}
