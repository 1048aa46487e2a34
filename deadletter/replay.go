package deadletter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/time/rate"

	"github.com/strikesmq/strikes/internal/setting"
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

	// OnMessage, if not nil, is told of each message: nil, it is replayed; ErrNoOrigin
	// or a *publisher.Error, it is left in the queue or undecided.
	OnMessage func(*Message, error)
}

// Replay publishes dead letters again and takes them off the queue once the
// broker has confirmed them: in their order, each with its MessageId and a new
// value of GenerationHeader. What is dead-lettered meanwhile is not replayed.
//
// A message that cannot be published (it does not say where it died, or its
// queue is gone) is left in its place. To pass one over, a replay of everything
// reads the rest of the queue, and has a window of 16 at most from there on; where
// Handling allows no look, it ends with an error that wraps the reason. It also
// ends where the Target has a Key that leads nowhere. Anything else that goes
// wrong ends it as well: the Result is what was done until then, and a replay may
// always be begun again. Once ctx is done it waits for the confirms of one window,
// 2 s at most.
func (q *Queue) Replay(ctx context.Context, r Replay) (Result, error) {
	if err := q.validate(); err != nil {
		return Result{}, err
	}
	if err := r.Check(q.Name); err != nil {
		return Result{}, err
	}
	r = r.withDefaults()
	pub, err := publisher.New(q.Dial, &publisher.Options{Window: r.Window}) //nolint:contextcheck // Close ends it
	if err != nil {
		return Result{}, err
	}
	defer pub.Close()
	w := &replaying{q: q, r: r, pub: pub, watch: q.watch(r), known: map[string]bool{}}
	if w.feed, err = q.feedOf(ctx, r.Filter, r.Window, r.Max); err != nil {
		return Result{}, err
	}
	w.total, w.watch.vhost = w.feed.total(), w.feed.vhost()
	w.takings = takings{records: q.Records, vhost: w.feed.vhost()}
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

// Check is what Replay refuses to begin with on a dead-letter queue of that name: a
// Target that is the queue itself, with ErrTarget, and negative numbers. With it a
// program can refuse before it asks a person.
func (r Replay) Check(queue string) error {
	if r.Target != nil && r.Target.Exchange == "" && r.Target.Key == queue {
		return fmt.Errorf("%w: %w", ErrTarget, setting.New("Target", queue, "the queue or exchange that is to handle the messages, not the dead-letter queue itself"))
	}
	const want = "positive, or 0 for the default"
	switch {
	case r.Window < 0:
		return fmt.Errorf("deadletter: %w", setting.New("Window", r.Window, want))
	case r.Max < 0:
		return fmt.Errorf("deadletter: %w", setting.New("Max", r.Max, want))
	case r.Rate < 0:
		return fmt.Errorf("deadletter: %w", setting.New("Rate", r.Rate, want))
	}
	return nil
}

func (r Replay) withDefaults() Replay {
	if r.Window == 0 {
		r.Window = 1
	}
	if !r.Filter.Everything() {
		r.Window = min(r.Window, picked)
	}
	return r
}

// replaying is a replay under way.
type replaying struct {
	q     *Queue
	r     Replay
	pub   *publisher.Publisher
	feed  feed
	watch *watch
	pace  *rate.Limiter
	total int
	taken int
	ahead []*Message      // of the feed, to be taken
	known map[string]bool // queues to which letters went
	stuck error           // the feed cannot pass over a message, for this reason

	takings takings
	result  Result
}

func (w *replaying) run(ctx context.Context) error {
	err := w.all(ctx)
	w.takings.finish(ctx)
	w.feed.finish(ctx)
	w.result.RecordsErr = w.takings.err
	if w.r.Filter.Everything() {
		w.result.Left = w.total - w.result.Done - len(w.result.Undecided) - w.feed.missing()
	}
	if err == nil {
		err = w.watch.linger(ctx, w.r.Watch)
	}
	w.result.FailedAgain = w.watch.failed
	return err
}

func (w *replaying) all(ctx context.Context) error {
	for w.taken < w.total {
		letters, err := w.next(ctx)
		if err != nil {
			return err
		}
		if len(letters) == 0 {
			break
		}
		if err := w.wait(ctx, len(letters)); err != nil {
			return err
		}
		w.taken += len(letters)
		if err := w.window(ctx, letters); err != nil {
			return err
		}
		if err := w.passOver(ctx); err != nil {
			return err
		}
		w.takings.tell(ctx)
		w.q.progress("replaying", w.taken, w.total)
		if err := w.watch.look(ctx); err != nil {
			return err
		}
	}
	return incomplete(w.q.Name, w.feed.missing())
}

// next takes a window. A queue to which nothing went yet may not be there, so the
// first letter to it goes alone: a stream can settle but few of a window of which
// it must pass over one.
func (w *replaying) next(ctx context.Context) (letters []*Message, err error) {
	if len(w.ahead) == 0 {
		if w.ahead, err = w.feed.next(ctx, min(w.r.Window, w.total-w.taken)); err != nil {
			return nil, err
		}
	}
	n := 0
	for n < len(w.ahead) && (w.feed.leave() || w.known[w.ahead[n].Origin.Queue] || w.r.Target != nil) {
		n++
	}
	n = max(n, min(1, len(w.ahead)))
	letters, w.ahead = w.ahead[:n], w.ahead[n:]
	return letters, nil
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
func (w *replaying) window(ctx context.Context, letters []*Message) error {
	outcomes := w.publish(ctx, letters)
	var done []*Message
	var first error
	for i, l := range letters {
		fate := fateOf(outcomes[i])
		if fate == passed && w.halts(outcomes[i]) {
			fate = ended
		}
		switch {
		case fate == replayed:
			done = append(done, l)
		case fate == undecided:
			w.result.unsure([]*Message{l})
			first = cmp.Or(first, outcomes[i])
		case fate == ended:
			first = cmp.Or(first, w.stays(outcomes[i]))
		case !w.feed.leave():
			w.stuck = outcomes[i]
			w.taken-- // it comes again
			continue
		default:
			w.result.Left++
		}
		if w.r.OnMessage != nil {
			w.r.OnMessage(l, outcomes[i])
		}
	}
	if err := w.feed.settle(done); err != nil {
		w.result.unsure(done)
		return cmp.Or(first, err)
	}
	w.count(done)
	return first
}

// halts reports whether what is the matter with a message ends the replay: that
// it cannot be passed over, or that no other could go either.
func (w *replaying) halts(err error) bool {
	if w.feed.leave() {
		return false
	}
	return !w.q.Handling.Hold || w.r.Target != nil && w.r.Target.Key != "" && errors.Is(err, publisher.ErrUnroutable)
}

// stays explains why a replay of everything cannot go on.
func (w *replaying) stays(err error) error {
	if fateOf(err) != passed || w.q.Handling.Hold {
		return err
	}
	return fmt.Errorf("%w; it is at the head of queue %q, and to pass it over takes a look at the queue: %s", err, w.q.Name, w.q.Handling.Why)
}

// passOver goes on with a feed that can leave messages where they are, if it must.
func (w *replaying) passOver(ctx context.Context) error {
	if w.stuck == nil {
		return nil
	}
	w.feed.finish(ctx)
	rest, err := w.q.chooseAll(ctx, w.r.Filter)
	if err != nil {
		return fmt.Errorf("%w; to pass it over: %w", w.stuck, err)
	}
	w.feed, w.ahead, w.stuck, w.r.Window = rest, nil, nil, min(w.r.Window, picked)
	return nil
}

func (w *replaying) count(done []*Message) {
	w.result.Done += len(done)
	w.takings.add(done)
	for _, l := range done {
		w.known[l.Origin.Queue] = true
		w.watch.add(l)
		if l.Redelivered {
			w.result.PossibleDuplicateCount++
			w.result.PossibleDuplicates = remember(w.result.PossibleDuplicates, l)
		}
	}
}
