package counter

import (
	"cmp"
	"context"
	"iter"
	"math"
	"time"

	"github.com/strikesmq/strikes/counter/rules"
)

// DeadReason is why and when a message was dead-lettered. Do not print its strings on a terminal unescaped.
type DeadReason struct {
	ID     string // a record keeps the first 512 bytes
	Cause  Cause
	Reason string
	At     time.Time
}

// DeadReasons yields the reasons of the dead letters that Dead yields, the newest first, in pages of at most 1000. The
// parameter most limits how many it reads; 0 or less: all of them. It takes about a third of the time of Dead, and
// yields an error once and stops.
func (a *Admin) DeadReasons(ctx context.Context, vhost, queue string, most int) iter.Seq2[[]DeadReason, error] {
	return func(yield func([]DeadReason, error) bool) {
		most := cmp.Or(max(most, 0), math.MaxInt)
		for p, err := range a.readPages(ctx, Queue{vhost, queue}, setDead, Entry{}, min(most, longPage), most) {
			out := make([]DeadReason, 0, len(p.texts))
			for _, text := range p.texts {
				if r, ok := rules.DecodeDead(text); ok {
					out = append(out, DeadReason{ID: r.ID, Cause: r.Cause, Reason: r.Reason, At: r.LastTime})
				}
			}
			if !yield(out, failed("reasons", queue, err)) || err != nil {
				return
			}
		}
	}
}
