package servers

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	startTimeout = 2 * time.Minute // of a server that never answers, where ctx has no earlier deadline
	probeEvery   = 100 * time.Millisecond
	probeTimeout = 5 * time.Second
)

// waitReady calls probe until it succeeds. It gives up when ctx is done, after
// startTimeout, or as soon as the child has ended, and then says what the
// probe saw last and what the child wrote.
func waitReady(ctx context.Context, c *child, probe func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	tick := time.NewTicker(probeEvery)
	defer tick.Stop()

	last := errors.New("not asked yet")
	for {
		select {
		case <-c.done:
			return fmt.Errorf("%s ended while starting (%w); its log ends:\n%s", c.name, c.err, c.tail())
		case <-ctx.Done():
			return fmt.Errorf("%s does not answer: %w; last: %w; its log ends:\n%s", c.name, ctx.Err(), last, c.tail())
		case <-tick.C:
		}
		if last = probeOnce(ctx, probe); last == nil {
			return nil
		}
	}
}

func probeOnce(ctx context.Context, probe func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	return probe(ctx)
}
