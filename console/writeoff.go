package console

import (
	"context"
	"fmt"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/records"
)

// explainWriteOff shows how many dead letters are unaccounted for now, and the possible causes.
func (c *Console) explainWriteOff(ctx context.Context, v *changeView) error {
	s, err := c.broker.Collect(ctx, v.Queue)
	if err != nil {
		return err
	}
	v.Missing = &s.Dead.Missing
	if s.Dead.Missing == 0 {
		v.Facts = []string{"No dead letter is unaccounted for now."}
		if s.Dead.Unclear > 0 {
			v.Facts = append(v.Facts, fmt.Sprintf("%s may be on the way or in use. Wait until nothing enters or leaves the dead-letter queue, then load this page again.", plural(s.Dead.Unclear, "dead letter")))
		}
		return nil
	}
	v.Facts = []string{
		plural(s.Dead.Missing, "dead letter") + " unaccounted for: expired, consumed elsewhere, removed by a command that was killed, or lost.",
		"Once written off, they are no longer reported as missing. No message and no record changes: the list of dead letters shows the record of each until it expires.",
		"The doctor finds most causes. Until the cause is fixed, more may go missing.",
	}
	return nil
}

// writeOff writes off what the visitor saw.
func (c *Console) writeOff(ctx context.Context, q *records.Queue, ch change) (string, error) {
	s, err := c.broker.Collect(ctx, ch.Queue)
	if err != nil {
		return "", err
	}
	if s.Dead.Missing != ch.Count {
		return "", counter.ErrWriteOff
	}
	plan, err := q.PlanWriteOff(s.Dead.Missing, s.Dead.WrittenOff, ch.note)
	if err == nil {
		err = q.WriteOff(ctx, &plan)
	}
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s written off.", plural(plan.Count, "dead letter")), nil
}
