package ops

import (
	"context"
	"errors"

	"github.com/strikesmq/strikes/doctor"
	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/internal/printable"
)

// askManagement asks for what AMQP does not report. An API that does not
// answer hides nothing else.
func (c *Collector) askManagement(ctx context.Context, s *Status) {
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
	arrived, err := doctor.Measure(ctx, c.conn, c.api(s.Dead.Queue))
	if err != nil {
		s.note("cannot count what was consumed from %s: %v", printable.Name(s.Dead.Queue), err)
		return
	}
	s.Dead.compare(arrived)
}
