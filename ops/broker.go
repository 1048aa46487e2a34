package ops

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/doctor"
	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/internal/printable"
)

// findTimeout bounds the search for the dead-letter queue. It is short of
// collectTimeout.
const findTimeout = 4 * time.Second

// routesEvery is the least time between two searches for it: routes rarely change.
const routesEvery = 30 * time.Second

// kept returns the dead-letter queue that was asked for, or the one that was found less than routesEvery ago. An older
// answer is looked up again, because a policy may name another queue by then.
func (c *question) kept(now time.Time) (queue string) {
	if c.DeadLetterQueue == "" && now.Sub(c.foundAt) < routesEvery {
		return c.found
	}
	return c.DeadLetterQueue
}

func (c *question) askBroker(ctx context.Context, s *Status) error {
	release, err := c.connect(ctx)
	if err != nil {
		return err
	}
	defer release()
	if err := ctx.Err(); err != nil {
		return err
	}
	q, found, err := c.depth(ctx, c.Queue)
	if err != nil {
		return err
	}
	switch of, _, err := broker.PartitionedBy(ctx, c.conn, c.Queue); {
	case err != nil:
		return err
	case of != "":
		return fmt.Errorf("queue %q %w of %q, which has its counts: ask for %[3]q", c.Queue, ErrPartition, of)
	case !found:
		if err := c.askPartitions(ctx, s); err != nil {
			return err
		}
		for _, p := range s.Partitions {
			q.Messages, q.Consumers = q.Messages+p.Ready, q.Consumers+p.Consumers
		}
	}
	s.Ready, s.Consumers = new(q.Messages), new(q.Consumers)
	if err := c.findDeadLetterQueue(ctx, s); err != nil {
		return err
	}
	for i, l := range s.Dead.Landings {
		switch q, found, err := c.depth(ctx, l.Queue); {
		case found:
			s.Dead.Landings[i].Holds = &q.Messages
		case err != nil && !accessRefused(err) && !broker.IsAway(err):
			return err
		}
	}
	if len(s.Dead.Landings) > 0 {
		return nil
	}
	q, found, err = c.depth(ctx, s.Dead.Queue)
	switch {
	case accessRefused(err):
		s.note("cannot count the messages in %s: the broker's user needs the read permission on it, or the management "+
			"API: %v", printable.Name(s.Dead.Queue), err)
	case broker.IsAway(err):
		s.Dead.away = true
	case err != nil:
		return err
	case found:
		s.Dead.Holds, s.Dead.consumers = &q.Messages, q.Consumers
	}
	return nil
}

// findDeadLetterQueue keeps a certain answer. A later guess does not replace it.
func (c *question) findDeadLetterQueue(ctx context.Context, s *Status) error {
	if s.Dead.Queue = c.kept(time.Now()); s.Dead.Queue != "" {
		return nil
	}
	brief, cancel := context.WithTimeout(ctx, findTimeout)
	defer cancel()
	at, err := FindDeadLetterQueue(brief, c.conn, c.API.For(c.Queue))
	switch {
	case errors.Is(brief.Err(), context.DeadlineExceeded) && ctx.Err() == nil:
		at = DeadLetterQueue{Name: c.Queue + ".dlq", Assumed: errors.New("the management API does not show its policy yet")}
	case at.several != nil:
		c.found, s.Dead.Landings = "", at.several
		return nil
	case err != nil:
		return err
	}
	c.foundAt = time.Now() // after a guess, the certain answer of before serves again for as long
	if at.Assumed == nil {
		c.found = at.Name
	}
	if s.Dead.Queue = cmp.Or(c.found, at.Name); c.found != "" {
		return nil
	}
	s.Assumed = at.Guess(c.Queue)
	s.note("%s", s.Assumed)
	return nil
}

// depth returns the ready messages and the consumers of a queue, if it exists.
// It asks the management API if the user may not ask over AMQP.
func (c *question) depth(ctx context.Context, queue string) (amqp.Queue, bool, error) {
	found, q, err := broker.FindQueue(ctx, c.conn, queue)
	if c.API.Management == "" || !accessRefused(err) {
		return q, found == broker.Yes, err
	}
	load, apiErr := doctor.Measure(ctx, c.conn, c.API.For(queue))
	if errors.Is(apiErr, broker.ErrNotFound) {
		return q, false, nil
	}
	if apiErr != nil {
		return q, false, fmt.Errorf("%w; %w", err, apiErr)
	}
	return amqp.Queue{Name: queue, Messages: load.Ready, Consumers: load.Consumers}, true, nil
}

func accessRefused(err error) bool {
	var reply *amqp.Error
	return errors.As(err, &reply) && reply.Code == amqp.AccessRefused
}

// askManagement adds rates, unacked messages and other facts that AMQP does not report. If the API does not answer, the
// status shows all else.
func (c *question) askManagement(ctx context.Context, s *Status) {
	if c.API.Management == "" {
		if c.noAPI != nil {
			why := "the management API does not answer at its usual address (--management-url names another)"
			if errors.Is(c.noAPI, broker.ErrDenied) {
				why = "the management API refuses the AMQP user (--management-url takes another)"
			}
			s.note("no rates, no counts of what others consumed from the dead-letter queue or what waits for it: %s: %v", why,
				c.noAPI)
		}
		return
	}
	load, err := c.load(ctx, s)
	if err != nil {
		s.note("no rates: %v", err)
		return
	}
	s.Unacked, s.Rates = &load.Unacked, &Rates{load.In, load.Out, load.Acked}
	s.Dead.Waiting, s.Dead.WaitingSeen = load.DeadLettering, true
	if s.Dead.Holds == nil {
		return
	}
	arrived, err := doctor.Measure(ctx, c.conn, c.API.For(s.Dead.Queue))
	if err != nil {
		s.note("cannot count what was consumed from %s: %v", printable.Name(s.Dead.Queue), err)
		return
	}
	s.Dead.compare(arrived)
}

// DelayQueue is a delay queue, which all queues of a virtual host share.
type DelayQueue struct {
	Queue    string `json:"queue"`
	Messages int    `json:"messages"` // ready
}

// Lost reports whether its messages return to no queue, because their queue was gone when their time was over.
func (q DelayQueue) Lost() bool { return q.Queue == broker.DelayLost }

// delayOf finds the delay queues in a list of queues, the shortest first.
func delayOf(listed map[string]broker.Listed) (found []DelayQueue) {
	names := []string{}
	for _, b := range broker.DelayQueues {
		names = append(names, b.Name)
	}
	for _, name := range append(names, broker.DelayLost) {
		if l, ok := listed[name]; ok {
			found = append(found, DelayQueue{name, l.Ready})
		}
	}
	return found
}
