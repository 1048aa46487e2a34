// Package partitions follows the deal of a partitioned queue.
package partitions

import (
	"context"
	"log/slog"
	"time"

	"github.com/strikesmq/strikes/counter/rules"
)

const (
	// Every is the time between two reads of the deal.
	Every = time.Second
	// timeout bounds a read, which takes two requests if the deal changes, and several to a database.
	timeout = time.Second
	// leaving bounds the last report. If that is lost, the partitions of this process wait until its lease ends.
	leaving = 2 * time.Second
	// alone is the time after its last read at which a process consumes all partitions, because the others may be gone.
	alone = 30 * time.Second
)

// Store deals the partitions of a queue among the processes that read the deal.
type Store interface {
	Deal(ctx context.Context, vhost, queue string, r rules.DealRead) (mine []int, err error)
}

// Follower has the partitions that this process shall consume, by its last read. One goroutine at a time uses it.
type Follower struct {
	store        Store
	vhost, queue string
	log          *slog.Logger

	me     rules.DealRead
	since  time.Time // of the last read that succeeded, or of Begin if that is later
	failed bool      // the last read failed
	dealt  bool      // me.Consumes is known: a read succeeded, or all have failed for as long as alone
}

// New returns a Follower that has read nothing.
func New(store Store, vhost, queue string, me rules.DealRead, log *slog.Logger) *Follower {
	return &Follower{store: store, vhost: vhost, queue: queue, log: log, me: me}
}

// Current returns the partitions to consume, and whether they are known.
func (f *Follower) Current() (mine []int, known bool) { return f.me.Consumes, f.dealt }

// Begin is called before the first Read on a connection to the broker. Without a connection the deal is not read, so
// that the lease of this process ends.
func (f *Follower) Begin() { f.since, f.failed, f.me.Left = time.Now(), false, false }

// Read reads the deal. If the store does not reply, its last reply stands. After 30 s without a reply the process
// consumes all partitions: the broker gives it those that no other process consumes.
func (f *Follower) Read(ctx context.Context) {
	reading, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	mine, err := f.store.Deal(reading, f.vhost, f.queue, f.me)
	switch {
	case err == nil:
		if f.failed {
			f.log.Info("the store deals the partitions again", "queue", f.queue)
		}
		f.since, f.failed, f.dealt, f.me.Consumes = time.Now(), false, true, mine
		return
	case ctx.Err() != nil:
		return
	case !f.failed:
		f.log.Warn("reading the deal of partitions failed; the last one stands", "queue", f.queue, "error", err)
	}
	f.failed = true
	if time.Since(f.since) >= alone && len(f.me.Consumes) < f.me.Partitions {
		f.log.Warn("reading the deal has failed for long: consuming all partitions that no other process consumes", "queue",
			f.queue, "error", err)
		f.dealt, f.me.Consumes = true, make([]int, f.me.Partitions)
		for i := range f.me.Consumes {
			f.me.Consumes[i] = i
		}
	}
}

// Leave tells the store that this process consumes no more, so that the others need not wait for its lease. If the
// store does not reply, the lease ends by itself. A second call does nothing until Begin is called.
func (f *Follower) Leave(ctx context.Context) {
	if f.me.Left {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, leaving)
	defer cancel()
	f.me.Left = true
	_, _ = f.store.Deal(ctx, f.vhost, f.queue, f.me)
}
