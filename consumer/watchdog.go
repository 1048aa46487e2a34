package consumer

import (
	"sync"
	"time"
)

// abandonAfter is how long a handler has to return once its context is cancelled. What it does later is ignored.
const abandonAfter = 2 * time.Second

// watchdog finds the handlers of a session that do not return when their context ends. All have the same timeout, so
// the one that began first is due first, and one timer serves all.
type watchdog struct {
	limit   time.Duration // from the begin of a handler until it is abandoned
	abandon func(*call)

	mu             sync.Mutex
	oldest, newest *call // that run, linked by before and after
	timer          *time.Timer
	armed          bool
	hastened       bool
}

func newWatchdog(handlerTimeout time.Duration, abandon func(*call)) *watchdog {
	w := &watchdog{limit: handlerTimeout, abandon: abandon}
	if w.limit += abandonAfter; w.limit < 0 { // there is no timeout
		w.limit = handlerTimeout
	}
	w.timer = time.AfterFunc(w.limit, w.fire)
	w.timer.Stop()
	return w
}

// add begins to watch the handler of c.
func (w *watchdog) add(c *call, began time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c.watched, c.due = true, began.Add(w.limit)
	if w.hastened {
		c.due = began.Add(abandonAfter)
	}
	if c.before = w.newest; c.before == nil {
		w.oldest = c
	} else {
		c.before.after = c
	}
	w.newest = c
	w.arm(began)
}

// remove stops to watch the handler of c. It reports false if that was abandoned.
func (w *watchdog) remove(c *call) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !c.watched {
		return false
	}
	w.unlink(c)
	return true
}

func (w *watchdog) unlink(c *call) {
	if c.before == nil {
		w.oldest = c.after
	} else {
		c.before.after = c.after
	}
	if c.after == nil {
		w.newest = c.before
	} else {
		c.after.before = c.before
	}
	c.watched, c.before, c.after = false, nil, nil
}

// arm sets the timer for the oldest handler, unless it runs: then it comes early, and look sets it again.
func (w *watchdog) arm(now time.Time) {
	if w.oldest != nil && !w.armed {
		w.armed = true
		w.timer.Reset(w.oldest.due.Sub(now))
	}
}

func (w *watchdog) fire() {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	for w.oldest != nil && !w.oldest.due.After(now) {
		c := w.oldest
		w.unlink(c)
		w.abandon(c)
	}
	w.armed = false
	w.arm(now)
}

// hasten is called when the contexts of all handlers are cancelled.
func (w *watchdog) hasten() {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	soon := now.Add(abandonAfter)
	for c := w.oldest; c != nil; c = c.after {
		if c.due.After(soon) {
			c.due = soon
		}
	}
	w.hastened, w.armed = true, false
	w.arm(now)
}

// stop ends the watch, when no handler is watched any more.
func (w *watchdog) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer.Stop()
}
