package status

import (
	"context"
	"errors"
	"time"

	"github.com/strikesmq/strikes/internal/doctor"
	"github.com/strikesmq/strikes/internal/inspect"
	"github.com/strikesmq/strikes/internal/queueinfo"
)

const (
	// routeEvery is the least time between two inspections of the dead-letter
	// route: each takes several requests.
	routeEvery = 10 * time.Second
	// routeTimeout bounds one. The policy of a queue that was just declared may
	// take longer.
	routeTimeout = 5 * time.Second
)

// askManagement asks for what AMQP does not report. An API that does not
// answer hides nothing else.
func (c *Collector) askManagement(ctx context.Context, s *Status) {
	if c.API.Management == "" {
		if c.noAPI != nil {
			s.note(NoManagement, "", c.noAPI)
		}
		return
	}
	load, err := doctor.Measure(ctx, c.conn, c.api(c.Queue))
	if err != nil {
		s.note(NoRates, "", err)
		return
	}
	s.Unacked, s.Rates = &load.Unacked, &Rates{load.In, load.Out, load.Acked}
	s.Dead.Waiting, s.Dead.WaitingSeen = load.DeadLettering, true
	if s.Dead.Holds == nil {
		return
	}
	arrived, err := doctor.Measure(ctx, c.conn, c.api(s.Dead.Queue))
	if err != nil {
		s.note(TakenNotCounted, s.Dead.Queue, err)
		return
	}
	s.Dead.compare(arrived)
}

// inspectRoute finds out why dead letters did not arrive, or will not. It asks
// nothing if all are accounted for and the route leads to a queue.
func (c *Collector) inspectRoute(ctx context.Context, s *Status) {
	d := &s.Dead
	if d.Missing == 0 && d.Waiting == 0 && !d.broken {
		return
	}
	if time.Since(c.routeSeen) >= routeEvery {
		ctx, cancel := context.WithTimeout(ctx, routeTimeout)
		defer cancel()
		c.routeSeen = time.Now()
		found, err := inspect.Inspect(ctx, c.conn, c.api(c.Queue))
		if err != nil && !errors.Is(err, queueinfo.ErrNotFound) {
			s.note(RouteUnchecked, "", err)
		}
		c.route = found
	}
	for _, f := range c.route {
		if explains(f, d.Missing > 0) {
			d.Route = append(d.Route, f)
		}
	}
}
