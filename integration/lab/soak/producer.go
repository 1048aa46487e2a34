package soak

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/integration/internal/faults"
	"github.com/strikesmq/strikes/integration/internal/ledger"
	"github.com/strikesmq/strikes/integration/internal/rig"
	"github.com/strikesmq/strikes/integration/internal/work"
	"github.com/strikesmq/strikes/internal/audit"
	"github.com/strikesmq/strikes/internal/poll"
	"github.com/strikesmq/strikes/internal/proxy"
	"github.com/strikesmq/strikes/publisher"
)

// batch is how many messages are published together, and after how many the backlog is checked.
const batch = 100

// producer publishes the jobs, through a proxy of its own, and undecided ones again. That may make two messages of one
// job.
type producer struct {
	jobs    []work.Job
	broker  *rig.Broker
	log     *ledger.Log
	link    *proxy.Proxy
	backlog int // at which it waits; 0: never

	reached func(n int) error // called when n messages are published
}

func (p *producer) run(ctx context.Context) error {
	dial := publisher.Dialer(p.broker.Through(p.link.Addr()),
		amqp.Config{Heartbeat: faults.Heartbeat, Dial: amqp.DefaultDial(5 * time.Second)})
	pub, err := publisher.New(dial, &publisher.Options{ConfirmTimeout: 10 * time.Second})
	if err != nil {
		return err
	}
	for from := 0; from < len(p.jobs); from += batch {
		to := min(from+batch, len(p.jobs))
		if err = p.publish(ctx, pub, from, to); err != nil {
			break
		}
		if err = p.reached(to); err != nil {
			break
		}
		if err = p.waitForRoom(ctx); err != nil {
			break
		}
	}
	return errors.Join(err, pub.Close())
}

// publish publishes jobs until each is confirmed.
func (p *producer) publish(ctx context.Context, pub *publisher.Publisher, from, to int) error {
	left, of := make([]publisher.Message, 0, to-from), map[string]work.Job{}
	for _, j := range p.jobs[from:to] {
		m := publisher.Message{Key: queue, Publishing: amqp.Publishing{MessageId: j.ID(), Body: j.Body()}}
		left, of[m.MessageId] = append(left, m), j
	}
	for len(left) > 0 {
		errs := make([]error, len(left))
		var some *publisher.BatchError
		if err := pub.PublishAll(ctx, left); errors.As(err, &some) {
			errs = some.Errs
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		var again []publisher.Message
		for i, m := range left {
			j := of[m.MessageId]
			p.log.Write(audit.Event{
				Kind: audit.Published, ID: m.MessageId, Seq: j.Seq, Lane: strconv.Itoa(j.Lane), Do: j.Do,
				Outcome: published(errs[i]), Err: text(errs[i]),
			})
			if errs[i] != nil {
				again = append(again, m)
			}
		}
		left = again
	}
	return nil
}

func published(err error) string {
	var e *publisher.Error
	switch {
	case err == nil:
		return audit.Confirmed
	case errors.As(err, &e) && !e.Undecided:
		return audit.Unsent
	}
	return audit.Undecided
}

// waitForRoom waits until the backlog is worked off, or a broker that is away has come back to say so.
func (p *producer) waitForRoom(ctx context.Context) error {
	if p.backlog == 0 {
		return nil
	}
	return poll.Until(ctx, 5*time.Minute, "room in the queue", func() error {
		n, err := p.broker.Depth(queue)
		if err == nil && n > p.backlog {
			err = fmt.Errorf("%d messages are ready", n)
		}
		return err
	})
}
