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

// tombstones that one round trip reads for their reasons: a longer reply would keep the store from its other clients
const reasonsPage = 1000

// DeadReason is why and when a message was dead-lettered. Do not print its strings on a terminal unescaped.
type DeadReason struct {
	ID     string // a record keeps the first 512 bytes
	Cause  Cause
	Reason string
	At     time.Time
}

// DeadReasons yields the reasons of the dead letters that Dead yields, the newest first, in pages of at most 1000. The
// parameter most limits how many it reads; 0: all of them. It takes about a third of the time of Dead. It reads the
// next pages while the caller works. It yields an error once and stops.
func (a *Admin) DeadReasons(ctx context.Context, vhost, queue string, most int) iter.Seq2[[]DeadReason, error] {
	return func(yield func([]DeadReason, error) bool) {
		var reading panics.Group
		// The caller's stop does not cancel ctx: a database client closes the connection of a call that is cancelled.
		stop := make(chan struct{})
		defer func() {
			close(stop)
			_ = reading.Wait()
		}()
		indexed, read := make(chan part[Entry], 1), make(chan chan part[string])
		reading.Go(func() error {
			defer close(indexed)
			a.indexDead(ctx, Queue{vhost, queue}, cmp.Or(most, math.MaxInt), indexed, stop)
			return nil
		})
		reading.Go(func() error {
			defer close(read)
			a.readDead(ctx, Queue{vhost, queue}, indexed, func(next chan part[string]) bool {
				select {
				case read <- next:
					return true
				case <-stop:
					return false
				}
			})
			return nil
		})
		for one := range read {
			texts, ok := <-one
			if !ok { // its reading panics, and so does Wait
				return
			}
			if texts.err != nil {
				yield(nil, failed("reasons", queue, texts.err))
				return
			}
			if !yield(reasonsOf(texts.of), nil) {
				return
			}
		}
	}
}

// part is some of the tombstones of a queue, or the error that ends them.
type part[T any] struct {
	of  []T
	err error
}

func (a *Admin) indexDead(ctx context.Context, of Queue, most int, to chan<- part[Entry], stop <-chan struct{}) {
	for w := (&walk{set: setDead}); most > 0; most -= reasonsPage {
		size := min(most, reasonsPage)
		entries, err := a.fill(ctx, of, w, size)
		if err == nil && len(entries) == 0 {
			return
		}
		select {
		case to <- part[Entry]{entries, err}:
		case <-stop:
			return
		}
		if err != nil || len(entries) < size {
			return
		}
	}
}

// readDead reads two parts at a time, because the database needs more time for a part than this process. It ends when
// yield returns false.
func (a *Admin) readDead(ctx context.Context, of Queue, from <-chan part[Entry], yield func(chan part[string]) bool) {
	var reading panics.Group
	defer func() { _ = reading.Wait() }()
	for index := range from {
		next := make(chan part[string], 1)
		reading.Go(func() error {
			defer close(next)
			var texts []string
			err := index.err
			if err == nil {
				texts, err = a.store.Read(ctx, of, setDead, index.of)
			}
			next <- part[string]{texts, err}
			return nil
		})
		if !yield(next) {
			return
		}
	}
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
