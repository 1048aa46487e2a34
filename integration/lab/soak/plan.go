package soak

import (
	"context"
	"errors"
	"math/rand/v2"

	"github.com/strikesmq/strikes/integration/internal/work"
	"github.com/strikesmq/strikes/internal/audit"
)

// share is how many of a thousand messages are of each kind; the rest succeed. Killers and those that pass the deadline
// are chosen apart, for each costs the fleet more than a second.
var share = []struct {
	do     string
	permil int
}{
	{audit.Slow, 20}, {audit.Fail, 80}, {audit.Poison, 20}, {audit.Reject, 10}, {audit.Panic, 10},
}

// plan lays out the jobs.
func plan(cfg config, rnd *rand.Rand) []work.Job {
	jobs := make([]work.Job, cfg.messages)
	if cfg.outage > 0 {
		return planOutage(jobs, rnd)
	}
	for i := range jobs {
		jobs[i] = work.Job{Seq: i + 1, Do: audit.Succeed, Ms: rnd.IntN(3), Lane: (i + 1) % cfg.lanes}
		if cfg.plain {
			jobs[i].Ms = 20 + rnd.IntN(40)
			continue
		}
		at := rnd.IntN(1000)
		for _, s := range share {
			if at -= s.permil; at < 0 {
				jobs[i].Do = s.do
				break
			}
		}
		switch jobs[i].Do {
		case audit.Slow:
			if jobs[i].Ms = 100 + rnd.IntN(400); cfg.ordered {
				jobs[i].Ms /= 50
			}
		case audit.Fail:
			jobs[i].Times = 1 + rnd.IntN(maxRetries)
		}
	}
	for _, costly := range []struct {
		do string
		n  int
	}{{audit.Kill, cfg.killers}, {audit.Hang, cfg.hangs}, {audit.Deaf, cfg.hangs / 2}} {
		for _, i := range rnd.Perm(len(jobs))[:min(costly.n, len(jobs))] {
			jobs[i] = work.Job{Seq: i + 1, Do: costly.do, Lane: jobs[i].Lane}
		}
	}
	return jobs
}

// outcome is the end of a run of the handler.
func outcome(ctx context.Context, j work.Job, err error) string {
	switch {
	case err == nil:
		return audit.OK
	case j.Do == audit.Reject && errors.Is(err, work.ErrJob):
		return audit.Rejected
	case j.Do == audit.Panic && errors.Is(err, work.ErrJob):
		return audit.Panicked
	case errors.Is(err, work.ErrJob):
		return audit.Failed
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return audit.TimedOut
	}
	return audit.Cancelled
}
