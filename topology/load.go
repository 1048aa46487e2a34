package topology

import (
	"context"
	"errors"
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Load is what a queue has to do now, as the management API tells: its numbers are up to 5 s old.
type Load struct {
	Ready     int // messages that are in the queue
	Unacked   int // messages that are out with consumers
	Consumers int // of the queue

	// DeadLettering is how many rejected messages a quorum queue keeps until its dead-letter route takes them (at-least-once).
	// It is up to 10 s old. AMQP counts them nowhere: they are neither ready nor unacked.
	DeadLettering int

	// Messages a second: published to the queue, handed to consumers, acked by them.
	In, Out, Acked float64

	// Taken is how many messages left the queue with an ack, or needed none, since the broker began to count: with its start,
	// and again some time after the queue was last used. What expired or was purged is not in it.
	Taken int64
}

// Measure asks the management API for the load of a queue; of need only Queue, Management and HTTPClient count. It is an
// error if the API is that of another broker than the one conn leads to. ErrQueueNotFound if the API knows no such queue: one
// that was declared a few seconds ago may be unknown to it.
func Measure(ctx context.Context, conn *amqp.Connection, need Need) (Load, error) {
	api, err := newManagement(need.Management, need.HTTPClient)
	if err != nil {
		return Load{}, err
	}
	want, _ := conn.Properties["cluster_name"].(string)
	have, err := api.cluster(ctx)
	if err == nil && want != "" && have != want {
		err = fmt.Errorf("it is that of cluster %q, the AMQP connection leads to %q", have, want)
	}
	if err != nil {
		return Load{}, fmt.Errorf("topology: management API: %w", err)
	}
	l, err := api.load(ctx, conn.Config.Vhost, need.Queue)
	if errors.Is(err, errNoSuch) {
		return Load{}, fmt.Errorf("%w: %q in virtual host %q", ErrQueueNotFound, need.Queue, conn.Config.Vhost)
	}
	if err != nil {
		return Load{}, fmt.Errorf("topology: management API: %w", err)
	}
	return l, nil
}

// apiRate is a rate as the API shows it.
type apiRate struct {
	Rate float64 `json:"rate"`
}

// apiLoad is the part of a queue that Load is made of. What never happened is absent.
type apiLoad struct {
	Ready     int `json:"messages_ready"`
	Unacked   int `json:"messages_unacknowledged"`
	DLX       int `json:"messages_dlx"`
	Consumers int `json:"consumers"`
	Stats     struct {
		In           apiRate `json:"publish_details"`
		Out          apiRate `json:"deliver_get_details"`
		AckRate      apiRate `json:"ack_details"`
		Acked        int64   `json:"ack"`
		GotNoAck     int64   `json:"get_no_ack"`
		DeliverNoAck int64   `json:"deliver_no_ack"`
	} `json:"message_stats"`
}

func (m *management) load(ctx context.Context, vhost, queue string) (Load, error) {
	const columns = "?columns=name,messages_ready,messages_unacknowledged,messages_dlx,consumers,message_stats" // without one that is there, the answer is []
	var l apiLoad
	if err := m.get(ctx, &l, columns, "queues", vhost, queue); err != nil {
		return Load{}, err
	}
	s := l.Stats
	return Load{
		Ready: l.Ready, Unacked: l.Unacked, DeadLettering: l.DLX, Consumers: l.Consumers, In: s.In.Rate, Out: s.Out.Rate, Acked: s.AckRate.Rate,
		Taken: s.Acked + s.GotNoAck + s.DeliverNoAck,
	}, nil
}
