package console

import (
	"context"
	"net/http"
	"sync"
	"time"
)

// paintAge is how old an answer may be that the first paint shows: the live stream brings the newer one.
const paintAge = 15 * time.Second

// patience is how long a page waits for answers. The live stream brings those that come later.
type patience struct {
	paint  time.Duration // of the first paint
	groups time.Duration // of the first paint for the groups of the store's records, enough for all of most queues
	answer time.Duration // of every other page
	asked  time.Duration // of broker and store: a question ends then
}

var usualPatience = patience{paint: 50 * time.Millisecond, groups: 30 * time.Millisecond,
	answer: 2500 * time.Millisecond, asked: 12 * time.Second}

// answer is the newest answer to a question, and the error since then.
type answer[T any] struct {
	Value T
	Known bool      // there was an answer
	At    time.Time // of the answer
	Err   error     // why there is no newer one
	Since time.Time // of the first failure after the answer
}

// cached asks a question again when its answer is old. Requests meanwhile wait for the same answer, so that many
// browsers cost as much as one.
type cached[T any] struct {
	base context.Context //nolint:containedctx // of the asking, which outlives the request that caused it
	ask  func(context.Context) (T, error)
	wait *sync.WaitGroup // of its owner, for the asking

	patience patience

	mu      sync.Mutex
	newest  answer[T]
	changes int           // how many were made
	seen    int           // how many of them were made before the newest answer was asked for
	asking  chan struct{} // closes when the answer is there; nil: no question is under way
	used    time.Time
}

// newCached returns one that asks in the background of a Console.
func newCached[T any](c *Console, ask func(context.Context) (T, error)) *cached[T] {
	guarded := func(ctx context.Context) (T, error) {
		return guardedAsk(c, func() (T, error) { return ask(ctx) })
	}
	return &cached[T]{base: c.base, ask: guarded, wait: &c.running, patience: c.patience, used: time.Now()}
}

// get returns an answer that is not older than age, or the newest one when ctx is done. A question that was under way
// during a change is asked again.
func (c *cached[T]) get(ctx context.Context, age time.Duration) answer[T] {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.used = time.Now()
	if c.newest.Err == nil && c.newest.Known && !c.outdated() && time.Since(c.newest.At) <= age {
		return c.newest
	}
	for again := true; again; again = c.newest.Err == nil && c.outdated() && ctx.Err() == nil {
		if c.asking == nil {
			done := make(chan struct{})
			c.asking = done
			c.wait.Go(func() { c.refresh(done) })
		}
		asking := c.asking
		c.mu.Unlock()
		select {
		case <-asking:
		case <-ctx.Done():
		}
		c.mu.Lock()
	}
	return c.newest
}

// outdated reports whether a change was made after the newest answer was asked for. The caller has locked c.mu.
func (c *cached[T]) outdated() bool { return c.seen < c.changes }

// peek returns the newest answer at once. If it is older than age, peek asks for another in the background.
func (c *cached[T]) peek(age time.Duration) answer[T] {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return c.get(ctx, age)
}

// paint is get for the first paint of a page. After a change it waits longer, so that the page shows the change.
func (c *cached[T]) paint(ctx context.Context, age time.Duration) answer[T] {
	c.mu.Lock()
	wait := c.patience.paint
	switch have := c.newest; {
	case !have.Known || have.Err != nil:
	case c.outdated():
		wait = c.patience.answer
	case time.Since(have.At) <= paintAge:
		wait = 0
	}
	c.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	return c.get(ctx, age)
}

// ask asks for a page: briefly for its first paint.
func ask[T any](r *http.Request, c *cached[T], age time.Duration) answer[T] {
	if !isLive(r) {
		return c.paint(r.Context(), age)
	}
	ctx, cancel := context.WithTimeout(r.Context(), c.patience.answer)
	defer cancel()
	return c.get(ctx, age)
}

// asking reports that the first paint did not wait for the first answer.
func asking[T any](r *http.Request, a answer[T]) bool { return !isLive(r) && !a.Known && a.Err == nil }

// refresh ends with its question, which the base ends.
func (c *cached[T]) refresh(done chan struct{}) {
	ctx, cancel := context.WithTimeout(c.base, c.patience.asked)
	defer cancel()
	c.mu.Lock()
	before := c.changes
	c.mu.Unlock()
	value, err := c.ask(ctx)
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		c.newest, c.seen = answer[T]{Value: value, Known: true, At: now}, before
	} else {
		if c.newest.Err == nil {
			c.newest.Since = now
		}
		c.newest.Err = err
	}
	c.asking = nil
	close(done)
}

// stale makes the next get ask.
func (c *cached[T]) stale() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changes++
}

func (c *cached[T]) busy() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.asking != nil
}

func (c *cached[T]) idle() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.asking != nil {
		return 0
	}
	return time.Since(c.used)
}
