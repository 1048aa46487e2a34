package main

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"
)

const (
	intakeBytes = 32 << 20 // that may wait to be published, unless a single message is larger
	entryBytes  = 64 << 10 // what an entry weighs beside its body, so that there are at most 512
)

// intake hands entries from the reader to the publisher: all that have come, together, so that slow input is published
// line by line and fast input in batches.
type intake struct {
	room  *semaphore.Weighted
	ready chan struct{} // holds one if there may be something to take

	mu      sync.Mutex
	waiting []entry
	ended   bool
	err     error // why the reader ended; nil: the input did
}

func newIntake() *intake {
	return &intake{room: semaphore.NewWeighted(intakeBytes), ready: make(chan struct{}, 1)}
}

func weight(e entry) int64 { return min(int64(len(e.msg.Body))+entryBytes, intakeBytes) }

// put waits for room. The entry is in memory by then, so one more than fits may be.
func (i *intake) put(ctx context.Context, e entry) error {
	if err := i.room.Acquire(ctx, weight(e)); err != nil {
		return err
	}
	i.change(func() { i.waiting = append(i.waiting, e) })
	return nil
}

// end says that nothing follows.
func (i *intake) end(err error) { i.change(func() { i.ended, i.err = true, err }) }

func (i *intake) change(f func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	f()
	select {
	case i.ready <- struct{}{}:
	default:
	}
}

// take waits for entries and returns all there are; none at the end of the input, or with the error that ended it.
func (i *intake) take(ctx context.Context) ([]entry, error) {
	for {
		i.mu.Lock()
		batch, ended, err := i.waiting, i.ended, i.err
		i.waiting = nil
		i.mu.Unlock()
		if len(batch) > 0 {
			return batch, nil
		}
		if ended {
			return nil, err
		}
		select {
		case <-i.ready:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// done makes room again once a batch is dealt with.
func (i *intake) done(batch []entry) {
	for _, e := range batch {
		i.room.Release(weight(e))
	}
}
