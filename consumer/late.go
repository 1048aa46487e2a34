package consumer

import (
	"context"
	"math"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

const (
	lateFor  = time.Minute // for which a late step is offered to the store
	lateMost = 1000        // late steps at the same time; more are dropped
)

// late holds the steps that could not be taken while their delivery was there, because the store was out of reach: the
// END of an attempt after its session, the FAIL of a message that was dead-lettered. They are repeated until the store
// takes them: both are harmless to repeat and better late than never.
type late struct {
	room  *semaphore.Weighted
	over  chan struct{} // closed: sent once more, then no more; nil: the tasks are not awaited
	tasks sync.WaitGroup

	mu     sync.Mutex
	closed bool // nothing is added any more
}

func newLate() *late {
	return &late{room: semaphore.NewWeighted(lateMost), over: make(chan struct{})}
}

// ownerless serves Handle and Consume. Its goroutines end within lateFor.
var ownerless = &late{room: semaphore.NewWeighted(lateMost)}

// add repeats a step. If over is not nil, the step is repeated for as long as Run runs, and over is called once the
// store took it or it is given up.
func (l *late) add(step func(context.Context) error, over func()) {
	until := time.Now().Add(lateFor)
	switch {
	case over == nil:
		over = func() {}
	case l.over != nil:
		until = time.Now().Add(math.MaxInt64)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || !l.room.TryAcquire(1) {
		over()
		return
	}
	l.tasks.Go(func() {
		defer l.room.Release(1)
		defer over()
		l.repeat(step, until)
	})
}

func (l *late) repeat(step func(context.Context) error, until time.Time) {
	for sent := 1; time.Now().Before(until); sent++ {
		last := false
		select {
		case <-time.After(storeBackoff(sent)):
		case <-l.over:
			last = true
		}
		ctx, cancel := context.WithTimeout(context.Background(), stepTimeout)
		err := step(ctx)
		cancel()
		if err == nil || last {
			return
		}
	}
}

// close has each step sent once more, and waits for them.
func (l *late) close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	close(l.over)
	l.tasks.Wait()
}
