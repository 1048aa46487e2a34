package deadletter

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"golang.org/x/time/rate"

	"github.com/strikesmq/strikes/publisher"
)

// defaultStopAfter is how many replayed messages may fail again.
const defaultStopAfter = 5

// Replay says what to replay, and how.
type Replay struct {
	Filter Filter
	Target *Target // if nil, each message goes to the queue in which it died

	// Window is how many messages are published before the first of them is
	// confirmed, and so how many may be published twice if the process is killed;
	// if zero, 1. Of a Filter that picks, at most 16.
	Window int

	Max  int     // replay no more; if zero, all that were there at the start
	Rate float64 // messages a second; if zero, no limit

	// StopAfter ends the replay when so many of the replayed messages have failed
	// again, as their records tell; if zero, 5; negative, never. It takes
	// Queue.Records and a queue to watch: not a Target with an Exchange.
	StopAfter int

	// Watch goes on looking for so long after the last message; if zero, once.
	Watch time.Duration

	// Told, if not nil, is told of each message: nil, it is replayed; ErrNoOrigin
	// or a *publisher.Error, it is left in the queue or undecided.
	Told func(*Letter, error)
}

// Replay publishes dead letters again and takes them off the queue once the
// broker has confirmed them: in their order, each with its MessageId and a new
// value of LifeHeader. What is dead-lettered meanwhile is not replayed.
//
// A message that cannot be published (it does not say where it died, or its
// queue is gone) is left, if others were picked by a Filter; else it ends the
// replay, as nothing behind it can be reached without passing it over. Anything
// else that goes wrong ends it as well: the Result is what was done until then,
// and a replay may always be begun again. Once ctx is done it waits for the
// confirms of one window, 2 s at most.
func (q *Queue) Replay(ctx context.Context, r Replay) (Result, error) {
	if err := q.validate(); err != nil {
		return Result{}, err
	}
	r, err := r.withDefaults()
	if err != nil {
		return Result{}, err
	}
	pub, err := publisher.New(q.Dial, &publisher.Options{Window: r.Window}) //nolint:contextcheck // Close ends it
	if err != nil {
		return Result{}, err
	}
	defer pub.Close()
	w := &replaying{q: q, r: r, pub: pub, watch: q.watch(r)}
	if w.feed, err = q.feedOf(ctx, r.Filter, r.Window, r.Max); err != nil {
		return Result{}, err
	}
	w.total, w.watch.vhost = w.feed.total(), w.feed.vhost()
	if r.Max > 0 {
		w.total = min(w.total, r.Max)
	}
	if r.Rate > 0 {
		w.pace = rate.NewLimiter(rate.Limit(r.Rate), r.Window)
		w.pace.AllowN(time.Now(), r.Window-1) // no burst to begin with
	}
	err = w.run(ctx)
	return w.result, err
}

func (r Replay) withDefaults() (Replay, error) {
	if r.Window < 0 || r.Max < 0 || r.Rate < 0 {
		return r, fmt.Errorf("deadletter: Replay.Window is %d, Max %d and Rate %v: give positive numbers, or zero for the defaults", r.Window, r.Max, r.Rate)
	}
	if r.Window == 0 {
		r.Window = 1
	}
	if !r.Filter.Everything() {
		r.Window = min(r.Window, picked)
	}
	return r, nil
}

// replaying is a replay under way.
type replaying struct {
	q      *Queue
	r      Replay
	pub    *publisher.Publisher
	feed   feed
	watch  *watch
	pace   *rate.Limiter
	total  int
	taken  int
	result Result
}

func (w *replaying) run(ctx context.Context) error {
	err := w.all(ctx)
	w.feed.finish(ctx)
	if err == nil {
		err = w.watch.linger(ctx, w.r.Watch)
	}
	w.result.FailedAgain = w.watch.failed
	return err
}

func (w *replaying) all(ctx context.Context) error {
	for w.taken < w.total {
		n := min(w.r.Window, w.total-w.taken)
		if err := w.wait(ctx, n); err != nil {
			return err
		}
		letters, err := w.feed.next(ctx, n)
		if err != nil {
			return err
		}
		if len(letters) == 0 {
			break
		}
		w.taken += len(letters)
		if err := w.window(ctx, letters); err != nil {
			return err
		}
		w.q.progress("replaying", w.taken, w.total)
		if err := w.watch.look(ctx); err != nil {
			return err
		}
	}
	return incomplete(w.q.Name, w.feed.missing())
}

func (w *replaying) wait(ctx context.Context, n int) error {
	if w.pace == nil {
		return ctx.Err()
	}
	if err := w.pace.WaitN(ctx, n); err != nil && ctx.Err() == nil {
		return fmt.Errorf("deadletter: the rate of %v a second: %w", w.r.Rate, err)
	}
	return ctx.Err()
}

// window publishes letters and takes off those that are confirmed.
func (w *replaying) window(ctx context.Context, letters []*Letter) error {
	outcomes := w.publish(ctx, letters)
	var done []*Letter
	var first error
	for i, l := range letters {
		switch fate := fateOf(outcomes[i]); {
		case fate == replayed:
			done = append(done, l)
		case fate == undecided:
			w.result.unsure([]*Letter{l})
			first = cmp.Or(first, outcomes[i])
		case fate == ended, !w.feed.leave():
			first = cmp.Or(first, outcomes[i])
			w.result.Left++
		default:
			w.result.Left++
		}
		if w.r.Told != nil {
			w.r.Told(l, outcomes[i])
		}
	}
	if err := w.feed.settle(done); err != nil {
		w.result.unsure(done)
		return cmp.Or(first, err)
	}
	w.count(done)
	return first
}

func (w *replaying) count(done []*Letter) {
	w.result.Done += len(done)
	for _, l := range done {
		w.watch.add(l)
		if l.Again {
			w.result.AgainCount++
			w.result.Again = remember(w.result.Again, l)
		}
	}
}
