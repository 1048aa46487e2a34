// Package partitions follows the deal of a partitioned queue.
package partitions

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/strikesmq/strikes/counter"
)

const (
	// every is the time between two reads of the deal.
	every = time.Second
	// timeout bounds a read, which takes two requests if the deal changes, and several to a database.
	timeout = time.Second
	// leaving bounds the last report. If that is lost, the partitions of this process wait until its lease ends.
	leaving = 2 * time.Second
	// alone is the time after its last read at which a process consumes all partitions, because the others may be gone.
	alone = 30 * time.Second
)

// Store deals the partitions of a queue among the processes that read the deal.
type Store interface {
	Deal(ctx context.Context, vhost, queue string, r counter.DealRead) (mine []int, err error)
}

// Follower has the partitions that this process shall consume, by its last read.
type Follower struct {
	store        Store
	vhost, queue string
	log          *slog.Logger

	mu      sync.Mutex
	me      counter.DealRead
	dealt   bool          // me.Consumes is known: a read succeeded, or the time alone is over
	changed chan struct{} // closed when me.Consumes changes, or with the first read
	since   time.Time     // of the last read, or the first try
}

// New returns a Follower that has read nothing.
func New(store Store, vhost, queue string, me counter.DealRead, log *slog.Logger) *Follower {
	return &Follower{store: store, vhost: vhost, queue: queue, log: log, me: me, changed: make(chan struct{})}
}

// Current returns the partitions to consume, whether they are known, and a channel that is closed when that changes.
func (f *Follower) Current() (mine []int, known bool, changed <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.me.Consumes, f.dealt, f.changed
}

// Follow reads the deal once a second until ctx ends. If the store does not reply, its last reply stands. After 30 s
// without a reply the process consumes all partitions: the broker gives it those that no other process consumes.
func (f *Follower) Follow(ctx context.Context) {
	reached := true
	f.since, f.me.Left = time.Now(), false
	for ctx.Err() == nil {
		err := f.read(ctx)
		switch {
		case ctx.Err() != nil:
		case err == nil && !reached:
			f.log.Info("the store deals the partitions again", "queue", f.queue)
		case err != nil && reached:
			f.log.Warn("reading the deal of partitions failed; the last one stands", "queue",
				f.queue, "error", err)
		}
		reached = err == nil
		select {
		case <-time.After(every):
		case <-ctx.Done():
		}
	}
}

func (f *Follower) read(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	mine, err := f.store.Deal(ctx, f.vhost, f.queue, f.me)
	if err == nil {
		f.since = time.Now()
		f.take(mine)
		return nil
	}
	if time.Since(f.since) >= alone && len(f.me.Consumes) < f.me.Partitions {
		f.log.Warn("reading the deal has failed for long: consuming all partitions that no other process consumes", "queue",
			f.queue, "error", err)
		all := make([]int, f.me.Partitions)
		for i := range all {
			all[i] = i
		}
		f.take(all)
	}
	return err
}

func (f *Follower) take(mine []int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.dealt && slices.Equal(mine, f.me.Consumes) {
		return
	}
	f.dealt, f.me.Consumes = true, mine
	close(f.changed)
	f.changed = make(chan struct{})
}

// Leave tells the store that this process consumes no more, so that the others need not wait for its lease. If the
// store does not reply, the lease ends by itself. A second call does nothing until Follow is called.
func (f *Follower) Leave(ctx context.Context) {
	if f.me.Left {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, leaving)
	defer cancel()
	f.me.Left = true
	_, _ = f.store.Deal(ctx, f.vhost, f.queue, f.me)
}
