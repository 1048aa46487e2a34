package doctor

import (
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/internal/inspect"
)

const (
	// dealStale is how long shares may stay uneven, and how long ago a process that lives has read its share.
	dealStale = 30 * time.Second
	// dealSettles is how long a partition may be without an active consumer: the lease of a process that died and the
	// five seconds between two figures of the management API.
	dealSettles = 12 * time.Second
)

// shared judges how processes share the n partitions of a queue.
func (c *Checkup) shared(ctx context.Context, queue string, n int) ([]inspect.Finding, error) {
	if c.Store == nil || c.mute.Load() {
		return nil, nil
	}
	asking, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	d, err := c.Store.Dealt(asking, c.Conn.Config.Vhost, queue)
	now, nowErr := c.Store.Now(asking)
	if err := cmp.Or(err, nowErr); err != nil {
		return c.unread(err), nil
	}
	found := judgeDeal(d, now, n)
	idle, err := c.idle(ctx, queue, n)
	if len(idle) > 0 {
		found = append(found, inspect.Say("partition-idle", inspect.Vars{"partitions": strings.Join(idle, ", ")}))
	}
	return found, err
}

// judgeDeal judges the shares of processes. Each read of a process makes the shares even.
func judgeDeal(d counter.Deal, now time.Time, n int) (found []inspect.Finding) {
	live, least, most := 0, n, 0
	for _, m := range d.Members {
		if now.Sub(m.Read) <= dealStale {
			live++
		}
		least, most = min(least, len(m.Partitions)), max(most, len(m.Partitions))
	}
	if live > n {
		found = append(found, inspect.Say("partition-processes", inspect.Vars{"processes": live, "n": n, "idle": live - n}))
	}
	if age := now.Sub(d.Read); len(d.Members) > 0 && most-least > 1 && age > dealStale {
		found = append(found, inspect.Say("partition-shares", inspect.Vars{"most": most, "least": least,
			"age": age.Round(time.Second)}))
	}
	return found
}

// idle returns the partitions that stay without an active consumer while the queue has consumers.
func (c *Checkup) idle(ctx context.Context, queue string, n int) ([]string, error) {
	again := time.NewTicker(time.Second)
	defer again.Stop()
	for began := time.Now(); ; {
		var idle []string
		consumed := false
		for _, name := range broker.Partitions(queue, n) {
			exists, q, err := broker.FindQueue(ctx, c.Conn, name)
			if err := broker.UnlessRefused(err); err != nil {
				return nil, err
			}
			consumed = consumed || q.Consumers > 0
			if exists == broker.Yes && (q.Consumers == 0 || c.ghost(ctx, name)) {
				idle = append(idle, name)
			}
		}
		if !consumed || len(idle) == 0 {
			return nil, nil
		}
		if time.Since(began) > dealSettles {
			return idle, nil
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// ghost reports whether the management API shows consumers of a queue and none of them as active. It does not trust
// RabbitMQ 4.0 to 4.2, whose API may show a consumer as waiting that has become active (seen on 4.0.5).
func (c *Checkup) ghost(ctx context.Context, queue string) bool {
	v := broker.VersionOf(c.Conn)
	api, err := c.Need.API()
	if err != nil || api == nil || !v.Before(4, 0) && v.Before(4, 3) {
		return false
	}
	s, err := api.State(ctx, c.Conn.Config.Vhost, queue)
	for _, one := range s.Consumers {
		if one.Active == nil || *one.Active {
			return false
		}
	}
	return err == nil && len(s.Consumers) > 0
}
