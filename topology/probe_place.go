package topology

import (
	"context"
	"fmt"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/internal/queueinfo"
)

// place is where a requeued message went.
type place int

const (
	atHead place = iota + 1
	atTail
	gone
)

// probePlace gives the first of three messages back and looks where it comes
// again.
func probePlace(ctx context.Context, conn *amqp.Connection, f facts) (Proof, error) {
	const what = "where a requeued message goes was not tried"
	switch {
	case f.Exclusive:
		return untried(what, "the queue is exclusive"), nil
	case f.Unread != "":
		return untried(what, "how the queue was declared cannot be read: "+f.Unread), nil
	case f.Type != queueinfo.Classic && f.Type != queueinfo.Quorum:
		return untried(what, fmt.Sprintf("the queue is of type %q", f.Type)), nil
	}
	var at place
	err := onScratch(ctx, conn, f.placeArguments(), func(s scratch) (err error) {
		at, err = s.place(ctx)
		return err
	})
	if err != nil {
		return Proof{}, err
	}
	return f.placeProof(at), nil
}

// placeArguments are those that bear on the place. The scratch queue drops its
// dead letters, whatever a policy for all queues says.
func (f facts) placeArguments() amqp.Table {
	args := amqp.Table{queueinfo.ArgType: f.Type, queueinfo.ArgDeadLetterExchange: "", queueinfo.ArgDeadLetterKey: "strikes.probe.none"}
	for name, value := range f.Args {
		if name == queueinfo.ArgSingleActive || name == queueinfo.ArgMaxPriority || strings.HasPrefix(name, "x-delayed-retry") {
			args[name] = value
		}
	}
	if limit, set := f.DeliveryLimit(); set && f.Type == queueinfo.Quorum {
		args[queueinfo.ArgDeliveryLimit] = limit
	}
	return args
}

func (s scratch) place(ctx context.Context) (place, error) {
	deliveries, err := s.fill(ctx, "1", "2", "3")
	if err != nil {
		return 0, err
	}
	d, _, err := next(ctx, deliveries)
	if err != nil {
		return 0, err
	}
	if err := d.Nack(false, true); err != nil {
		return 0, err
	}
	for seen := 0; ; seen++ {
		d, came, err := next(ctx, deliveries)
		switch {
		case err != nil:
			return 0, err
		case !came && seen < 2:
			return 0, fmt.Errorf("the scratch queue delivers nothing within %v", probeWait)
		case !came:
			return gone, nil
		case d.MessageId == "1" && seen == 0:
			return atHead, d.Ack(false)
		case d.MessageId == "1":
			return atTail, d.Ack(false)
		}
		if err := d.Ack(false); err != nil {
			return 0, err
		}
	}
}

func (f facts) placeProof(at place) Proof {
	x := Finding{
		Severity: Error,
		Fix: fmt.Sprintf("declare the queue anew as a quorum queue with %s=%d (strikes declare), or as a classic queue",
			queueinfo.ArgDeliveryLimit, queueinfo.DefaultDeliveryLimit),
	}
	switch at {
	case atHead:
		return Proof{Proven: []string{"a message given back came next: it keeps its place at the head"}}
	case atTail:
		x.Code, x.Seen = "probe-tail", "a message given back came behind the others, on a scratch queue with the same arguments"
		x.Why = "all that wait are handled before it is retried, and the order is lost"
	default:
		x.Code, x.Seen = "probe-discards", "a message given back did not come again, on a scratch queue with the same arguments"
		x.Why = "it is dead-lettered or dropped at its first failure"
	}
	return Proof{Findings: []Finding{x}}
}
