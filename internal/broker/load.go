package broker

import (
	"context"
	"errors"
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Load is the work of a queue now. Its numbers are up to 5 s old.
type Load struct {
	Ready     int // messages in the queue
	Unacked   int // messages that consumers hold
	Consumers int

	// DeadLettering is how many rejected messages a quorum queue keeps until its dead-letter route takes them
	// (at-least-once). It is up to 10 s old. AMQP counts them nowhere: they are neither ready nor unacked.
	DeadLettering int

	// Messages a second: published to the queue, handed to consumers, acked by them.
	In, Out, Acked float64

	// Taken is how many messages left the queue with an ack, or needed none, since the broker began to count: with its
	// start, and again some time after the queue was last used. It excludes what expired or was purged.
	Taken int64
}

// Load returns the load of a queue. It is an error if the API is that of another broker than the one conn leads to. It
// is queueinfo.ErrNotFound if the API knows no such queue; a queue that was declared a few seconds ago may be unknown
// to it.
func (c *API) Load(ctx context.Context, conn *amqp.Connection, queue string) (Load, error) {
	if err := c.Serves(ctx, conn); err != nil {
		return Load{}, fmt.Errorf("management API: %w", err)
	}
	l, err := c.load(ctx, conn.Config.Vhost, queue)
	if errors.Is(err, ErrNoObject) {
		return Load{}, fmt.Errorf("%w: %q in virtual host %q", ErrNotFound, queue, conn.Config.Vhost)
	}
	if err != nil {
		return Load{}, fmt.Errorf("management API: %w", err)
	}
	return l, nil
}

type rate struct {
	Rate float64 `json:"rate"`
}

// loadColumns are those of a loadReply.
const loadColumns = "messages_ready,messages_unacknowledged,messages_dlx,consumers,message_stats"

// loadReply is a load as the API shows it. What never happened is absent.
type loadReply struct {
	Ready     int `json:"messages_ready"`
	Unacked   int `json:"messages_unacknowledged"`
	DLX       int `json:"messages_dlx"`
	Consumers int `json:"consumers"`
	Stats     object[struct {
		In           object[rate] `json:"publish_details"`
		Out          object[rate] `json:"deliver_get_details"`
		AckRate      object[rate] `json:"ack_details"`
		Acked        int64        `json:"ack"`
		GotNoAck     int64        `json:"get_no_ack"`
		DeliverNoAck int64        `json:"deliver_no_ack"`
	}] `json:"message_stats"`
}

func (l loadReply) load() Load {
	s := l.Stats.is
	return Load{
		Ready: l.Ready, Unacked: l.Unacked, DeadLettering: l.DLX, Consumers: l.Consumers,
		In: s.In.is.Rate, Out: s.Out.is.Rate, Acked: s.AckRate.is.Rate,
		Taken: s.Acked + s.GotNoAck + s.DeliverNoAck,
	}
}

func (c *API) load(ctx context.Context, vhost, queue string) (Load, error) {
	var l loadReply
	// without a column that exists, the reply is []
	if err := c.get(ctx, &l, "?columns=name,"+loadColumns, "queues", vhost, queue); err != nil {
		return Load{}, err
	}
	return l.load(), nil
}
