package deadletter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/time/rate"

	"github.com/strikesmq/strikes/internal/pause"
	"github.com/strikesmq/strikes/internal/setting"
	"github.com/strikesmq/strikes/publisher"
)

// MaxWindow is the largest window of a Replay. A consumer's prefetch, which holds two windows, has 65535 at most.
const MaxWindow = 1000

// defaultStopAfter is how many replayed messages may fail again.
const defaultStopAfter = 5

// Replay selects dead letters and says how to replay them.
type Replay struct {
	Filter Filter

	// Window is how many messages are published before the first of them is confirmed. So many may be published twice if
	// the process is killed. If zero, 1; at most MaxWindow, and 16 if the Filter picks.
	Window int

	Max  int     // replay no more; if zero, all that were there at the start
	Rate float64 // messages a second; if zero, no limit

	// StopAfter ends the replay when so many of the replayed messages have failed again, by their records. If zero, 5;
	// negative: never. It needs Queue.Records.
	StopAfter int

	// Watch is how long the replay watches for failures after the last message; if zero, it checks once.
	Watch time.Duration

	// OnBegin, if not nil, is called once, before the first message is published. If it returns an error, nothing is
	// replayed.
	OnBegin func() error

	// OnMessage, if not nil, is called with each message: nil if it is replayed; ErrNoOrigin or a *publisher.Error if it
	// is left in the queue or undecided.
	OnMessage func(*Message, error)
}

// Replay publishes dead letters again, to the queues in which they died, and takes each off the dead-letter queue once
// the broker has confirmed it. It keeps their order. Each has its MessageId and a new value of GenerationHeader. Replay
// ignores messages that are dead-lettered meanwhile.
//
// A message that cannot be published stays at its position: it does not say where it died, or its queue is gone. To
// skip it, a replay of everything reads the rest of the queue, and from there on has a window of 16 at most. Where
// Handling allows no reading, the replay ends with an error that wraps the reason. It also ends after any other error.
// The Result counts the messages until then, and the replay may be repeated. Once ctx is done, Replay waits up to 2 s
// for the confirms of one window.
func (q *Queue) Replay(ctx context.Context, r Replay) (Result, error) {
	if err := q.validate(); err != nil {
		return Result{}, err
	}
	if err := r.validate(); err != nil {
		return Result{}, err
	}
	r.Window = cmp.Or(r.Window, 1)
	if !r.Filter.Everything() {
		r.Window = min(r.Window, picked)
	}
	pub, err := publisher.New(q.Dial, &publisher.Options{Window: r.Window})
	if err != nil {
		return Result{}, err
	}
	defer func() { _ = pub.CloseWithin(0) }() // each window has waited for its confirms
	w := &replaying{taking: taking{q: q, doing: "replaying", window: r.Window}, r: r, pub: pub,
		watch: q.watch(r), known: map[string]bool{}}
	w.store, w.after = w.publishWindow, w.goOn
	if err := w.begin(ctx, r.Filter, r.Max); err != nil {
		return Result{}, err
	}
	w.watch.vhost = w.source.s.vhost
	if w.pace = rate.NewLimiter(rate.Inf, r.Window); r.Rate > 0 {
		w.pace.SetLimit(rate.Limit(r.Rate))
		w.pace.AllowN(time.Now(), r.Window-1) // no burst at the start
	}
	err = w.run(ctx)
	w.finish(ctx)
	if r.Filter.Everything() {
		w.result.Left = w.total - w.result.Done - len(w.result.Undecided) - w.source.gone
	}
	if err == nil {
		err = w.watch.linger(ctx, r.Watch)
		if ctx.Err() != nil { // to repeat the replay would replay those that fail again
			err = fmt.Errorf("deadletter: all were published, but it is not known whether they fail again: %w", ctx.Err())
		}
	}
	w.result.FailedAgain = w.watch.failed
	return w.result, err
}

func (r Replay) validate() error {
	const want = "positive, or 0 for the default"
	switch {
	case r.Window < 0 || r.Window > MaxWindow:
		return fmt.Errorf("deadletter: %w", setting.New("Window", r.Window, fmt.Sprintf("1 to %d, or 0 for the default",
			MaxWindow)))
	case r.Max < 0:
		return fmt.Errorf("deadletter: %w", setting.New("Max", r.Max, want))
	case !(r.Rate >= 0): // as NaN is not
		return fmt.Errorf("deadletter: %w", setting.New("Rate", r.Rate, want))
	}
	return nil
}

// replaying is a taking that publishes.
type replaying struct {
	taking
	r     Replay
	pub   *publisher.Publisher
	watch *watch
	pace  *rate.Limiter
	known map[string]bool // queues that have received a message
	stuck error           // why a message must be skipped, which the source cannot do
}

// publishWindow publishes a window, part by part. The parts after a message that must be skipped are taken again later.
func (w *replaying) publishWindow(ctx context.Context, window []*Message) (confirmed []*Message, err error) {
	if begin := w.r.OnBegin; begin != nil {
		w.r.OnBegin = nil
		if err := begin(); err != nil {
			return nil, err
		}
	}
	if err := w.pace.WaitN(ctx, len(window)); err != nil && (ctx.Err() == nil || !w.source.commits()) {
		return nil, cmp.Or(ctx.Err(), fmt.Errorf("deadletter: the rate of %v a second: %w", w.r.Rate, err))
	}
	for len(window) > 0 && w.stuck == nil && err == nil {
		n := w.part(window)
		var done []*Message
		done, err = w.publishPart(ctx, window[:n])
		confirmed, window = append(confirmed, done...), window[n:]
	}
	if w.stuck != nil {
		w.taken -= len(window)
	}
	return confirmed, err
}

// part returns how many messages to publish together. The first message to a queue goes alone, because the queue may be
// gone. A stream can settle only few messages of a window beside one that it must skip. More than 32 need the consumer
// of land, which takes a message that follows, and returns it behind the others.
func (w *replaying) part(window []*Message) int {
	if w.source.canSkip() {
		return len(window)
	}
	for n, m := range window {
		if !w.known[m.Origin.Queue] {
			return max(n, 1)
		}
	}
	return len(window)
}

// publishPart publishes messages and returns those that are confirmed. Its error ends the replay.
func (w *replaying) publishPart(ctx context.Context, part []*Message) (confirmed []*Message, first error) {
	outcomes := w.publish(ctx, part)
	for i, m := range part {
		fate := fateOf(outcomes[i])
		if fate == skipped && !w.source.canSkip() && !w.q.Handling.endures() {
			fate = ended
		}
		switch {
		case fate == replayed:
			confirmed = append(confirmed, m)
			w.known[m.Origin.Queue] = true
		case fate == undecided:
			w.result.Undecided = remember(w.result.Undecided, m)
			first = cmp.Or(first, outcomes[i])
		case fate == ended:
			first = cmp.Or(first, w.explainEnd(outcomes[i]))
		case !w.source.canSkip():
			w.stuck = outcomes[i]
			w.taken-- // it is taken again
			continue
		default:
			w.result.Left++
		}
		if w.r.OnMessage != nil {
			w.r.OnMessage(m, outcomes[i])
		}
	}
	return confirmed, first
}

// explainEnd says why a replay of everything cannot go on.
func (w *replaying) explainEnd(err error) error {
	if fateOf(err) != skipped || w.q.Handling.endures() {
		return err
	}
	return fmt.Errorf("%w; it is at the head of queue %q, and skipping it needs a read of the queue: %s", err, w.q.Name,
		w.q.Handling.Why)
}

// goOn replaces a source that is stuck by one that can skip messages. It watches the confirmed messages, and checks
// for failures.
func (w *replaying) goOn(ctx context.Context, confirmed []*Message) error {
	for _, m := range confirmed {
		w.watch.add(m)
	}
	if w.stuck == nil {
		return w.watch.check(ctx)
	}
	w.source.finish(ctx)
	rest, err := w.q.chooseAll(ctx, w.r.Filter)
	if err != nil {
		return fmt.Errorf("%w; to skip it: %w", w.stuck, err)
	}
	w.source, w.stuck, w.window = rest, nil, min(w.window, picked)
	return w.watch.check(ctx)
}

const (
	// confirmTime is how long a window may take to be confirmed, including an outage or an alarm of the broker.
	confirmTime = 30 * time.Second
	// lastConfirms is how long an interrupted replay waits for the confirms of the messages that it sent.
	lastConfirms = 2 * time.Second
)

// fate is the end of an attempt to publish a message.
type fate int

const (
	replayed  fate = iota // confirmed
	skipped               // not published, for a reason of its own
	ended                 // not published, and the next would not be either
	undecided             // it may or may not be published
)

func fateOf(err error) fate {
	var failed *publisher.Error
	switch {
	case err == nil:
		return replayed
	case errors.As(err, &failed) && failed.Undecided:
		return undecided
	case errors.Is(err, ErrNoOrigin), errors.Is(err, publisher.ErrUnroutable), errors.Is(err, publisher.ErrInvalid):
		return skipped
	}
	return ended
}

// asReplay replaces the advice of an undecided publish. Its dead letter stays, so you repeat the replay; publishing by
// hand would publish it twice.
func asReplay(err error) error {
	var failed *publisher.Error
	if !errors.As(err, &failed) || !failed.Undecided {
		return err
	}
	return &undecidedError{failed}
}

type undecidedError struct{ cause *publisher.Error }

func (e *undecidedError) Error() string {
	plain := *e.cause
	plain.Undecided = false
	return plain.Error() + "; it may or may not be published, and stays in the dead-letter queue: repeat the replay"
}

func (e *undecidedError) Unwrap() error { return e.cause }

// publish publishes messages in order and returns an error or nil for each.
func (w *replaying) publish(ctx context.Context, messages []*Message) []error {
	outcomes := make([]error, len(messages))
	var batch []publisher.Message
	var of []int
	for i, m := range messages {
		to, err := m.again(w.q.Name)
		if err != nil {
			outcomes[i] = err
			continue
		}
		batch, of = append(batch, to), append(of, i)
	}
	sending, cancel := pause.Outlive(ctx, lastConfirms, confirmTime)
	defer cancel()
	var failed *publisher.BatchError
	if err := w.pub.PublishAll(sending, batch); errors.As(err, &failed) {
		for i, err := range failed.Errs {
			outcomes[of[i]] = asReplay(err)
		}
	}
	return outcomes
}
