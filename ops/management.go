package ops

import (
	"context"

	"github.com/strikesmq/strikes/doctor"
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
	load, err := c.load(ctx, s)
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
