package publisher_test

import (
	"os"
	"sync"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/internal/servers"
	"github.com/strikesmq/strikes/internal/servertest"
	"github.com/strikesmq/strikes/publisher"
)

var need = servertest.Need

// benchQueue declares a queue that keeps nothing, so that the broker's work
// stays the same from one run to the next.
func benchQueue(b *testing.B) (url, queue string) {
	b.Helper()
	if url = os.Getenv("AMQP_URL"); url == "" {
		url = servertest.Broker(b, servers.RabbitMQOptions{}).URL
	}
	conn, err := amqp.Dial(url)
	need(b, err)
	ch, err := conn.Channel()
	need(b, err)
	q, err := ch.QueueDeclare("", false, false, true, false, amqp.Table{"x-max-length": 1000})
	need(b, err)
	b.Cleanup(func() { _ = conn.Close() })
	return url, q.Name
}

var benchBody = make([]byte, 200)

func BenchmarkPublish64Goroutines(b *testing.B) {
	url, queue := benchQueue(b)
	p, err := publisher.New(publisher.Dialer(url, amqp.Config{}), nil)
	need(b, err)
	defer p.Close()
	if _, err := p.Publish(b.Context(), "", queue, amqp.Publishing{}); err != nil {
		b.Fatal(err)
	}
	work := make(chan struct{}, 1024)
	var workers sync.WaitGroup
	b.ReportAllocs()
	b.ResetTimer()
	for range 64 {
		workers.Go(func() {
			for range work {
				if _, err := p.Publish(b.Context(), "", queue, amqp.Publishing{Body: benchBody}); err != nil {
					b.Error(err)
				}
			}
		})
	}
	for range b.N {
		work <- struct{}{}
	}
	close(work)
	workers.Wait()
}

// BenchmarkBarePipelined is the yardstick for the others: one goroutine publishes, one waits for the confirms, and 64
// messages are in flight.
func BenchmarkBarePipelined(b *testing.B) {
	url, queue := benchQueue(b)
	conn, err := amqp.Dial(url)
	need(b, err)
	defer conn.Close()
	ch, err := conn.Channel()
	need(b, err)
	need(b, ch.Confirm(false))
	inFlight := make(chan *amqp.DeferredConfirmation, 64)
	var confirms sync.WaitGroup
	b.ReportAllocs()
	b.ResetTimer()
	confirms.Go(func() {
		for dc := range inFlight {
			if !dc.Wait() {
				b.Error("not confirmed")
			}
		}
	})
	for range b.N {
		msg := amqp.Publishing{DeliveryMode: amqp.Persistent, Body: benchBody}
		publisher.Stamp(&msg)
		dc, err := ch.PublishWithDeferredConfirm("", queue, true, false, msg)
		need(b, err)
		inFlight <- dc
	}
	close(inFlight)
	confirms.Wait()
}
