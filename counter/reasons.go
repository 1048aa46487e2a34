package counter

import (
	"cmp"
	"context"
	"iter"
	"math"
	"time"

	"github.com/strikesmq/strikes/counter/rules"
	"github.com/strikesmq/strikes/internal/panics"
)

// DeadReason is why and when a message was dead-lettered. Do not print its strings on a terminal unescaped.
type DeadReason struct {
	ID     string // a record keeps the first 512 bytes
	Cause  Cause
	Reason string
	At     time.Time
}

// DeadReasons yields the reasons of the dead letters that Dead yields, the newest first, in pages of at most 1000. The
// parameter most limits how many it reads; 0 or less: all of them. It takes about a third of the time of Dead. It reads
// the next pages while the caller works. It yields an error once and stops.
func (a *Admin) DeadReasons(ctx context.Context, vhost, queue string, most int) iter.Seq2[[]DeadReason, error] {
	return func(yield func([]DeadReason, error) bool) {
		var reading panics.Group
		// The caller's stop does not cancel ctx: a database client closes the connection of a call that is cancelled.
		stop := make(chan struct{})
		defer func() {
			close(stop)
			_ = reading.Wait()
		}()
		// The next page is read while the database reads this one, because it needs more time for a page than this process.
		pages := make(chan chan reasonsPage)
		reading.Go(func() error {
			defer close(pages)
			of, left := Queue{vhost, queue}, cmp.Or(max(most, 0), math.MaxInt)
			for found, err := range a.pages(ctx, of, setDead, Entry{}, min(left, longPage)) {
				found = found[:min(left, len(found))]
				left -= len(found)
				next := make(chan reasonsPage, 1)
				reading.Go(func() error {
					defer close(next)
					var texts []string
					if err == nil {
						texts, err = a.store.Read(ctx, of, setDead, found)
					}
					next <- reasonsPage{reasonsOf(texts), err}
					return nil
				})
				select {
				case pages <- next:
				case <-stop:
					return nil
				}
				if left == 0 {
					return nil
				}
			}
			return nil
		})
		for page := range pages {
			some, ok := <-page
			if !ok { // its reading panics, and so does Wait
				return
			}
			if !yield(some.of, failed("reasons", queue, some.err)) || some.err != nil {
				return
			}
		}
	}
}

// reasonsPage has the reasons of a page, or the error that ends them.
type reasonsPage struct {
	of  []DeadReason
	err error
}

func reasonsOf(texts []string) []DeadReason {
	out := make([]DeadReason, 0, len(texts))
	for _, text := range texts {
		if r, ok := rules.DecodeDead(text); ok {
			out = append(out, DeadReason{ID: r.ID, Cause: r.Cause, Reason: r.Reason, At: r.LastTime})
		}
	}
	return out
}
