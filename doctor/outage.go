package doctor

import (
	"context"
	"slices"
	"time"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/inspect"
	"github.com/strikesmq/strikes/internal/printable"
	"github.com/strikesmq/strikes/internal/reason"
	"github.com/strikesmq/strikes/internal/shell"
)

// Many messages that die for one reason within moments are the trace of an outage. A few bad messages die like that
// too, so burst is well above the size of a breaker.
const (
	burst       = 20
	burstWithin = 5 * time.Second
	burstRecent = 7 * 24 * time.Hour
	burstAmong  = 1000 // so many dead letters are read, the newest first
)

// breaker reports the trace of an outage in a queue whose consumers have no breaker. Without such a trace a consumer
// without a breaker is no finding: the breaker is off by default. It reads the newest dead letters.
func (c *Checkup) breaker(ctx context.Context, s counter.QueueState, vhost, queue string) ([]inspect.Finding, error) {
	consumers := slices.DeleteFunc(s.Consumers, func(x counter.ConsumerState) bool { return x.Paused }) // it does not say
	without := slices.DeleteFunc(slices.Clone(consumers), func(x counter.ConsumerState) bool { return x.Breaker })
	if len(without) == 0 {
		return nil, nil
	}
	for dead, err := range c.Store.DeadReasons(ctx, vhost, queue, burstAmong) {
		if err != nil {
			return nil, err
		}
		if last, n := burstOf(dead, s.Time); n > 0 {
			return []inspect.Finding{inspect.Say("no-breaker", inspect.Vars{
				"n": n, "within": burstWithin, "at": last.At.Format(time.RFC3339), "why": printable.Line(last.Reason, 200),
				"without": len(without), "of": len(consumers), "name": printable.Line(without[0].Consumer, 80),
				"queue": shell.Operands(queue),
			})}, nil
		}
	}
	return nil, nil
}

// burstOf returns the newest of the dead letters in the latest burst, and how many there are; 0: there is no burst. A
// message that its handler rejected, or that killed its process, is at fault itself, and a skip is an operator's.
func burstOf(dead []counter.DeadReason, now time.Time) (last counter.DeadReason, n int) {
	atFault := []counter.Cause{counter.CauseRejected, counter.CauseCrashed, counter.CauseSkipped}
	within := map[string][]time.Time{} // the latest deaths of each reason
	byTime := func(a, b counter.DeadReason) int { return a.At.Compare(b.At) }
	for _, d := range slices.SortedFunc(slices.Values(dead), byTime) {
		if slices.Contains(atFault, d.Cause) || now.Sub(d.At) >= burstRecent {
			continue
		}
		why := reason.Normalise(d.Reason)
		within[why] = append(slices.DeleteFunc(within[why], func(at time.Time) bool {
			return d.At.Sub(at) > burstWithin
		}), d.At)
		if in := len(within[why]); in >= burst {
			last, n = d, in
		}
	}
	return last, n
}
