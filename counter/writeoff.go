package counter

import (
	"context"
	_ "embed"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/strikesmq/strikes/internal/setting"
)

// ErrWriteOff is wrapped by WriteOff if another operator wrote dead letters off meanwhile, or if there are fewer: nothing is done. Read
// Tombstones again, and repeat the call with their figures.
var ErrWriteOff = errors.New("the dead letters that are unaccounted for changed meanwhile")

//go:embed scripts/writeoff.lua
var writeOffLua string

var writeOff = redis.NewScript(writeOffLua)

// WriteOff records that an operator accepts n dead letters of a queue as lost: it adds n to Tombstones.WrittenOff. before is the value of
// WrittenOff that the operator saw. n must be 1 or more. It changes no record. If dead letters that were written off are removed later
// (NoteRemoved), they no longer count as written off. After an error of the store they may or may not be
// written off; it is safe to repeat the call with the same before.
func (a *Admin) WriteOff(ctx context.Context, vhost, queue string, n, before int64) error {
	if n < 1 {
		return fmt.Errorf("counter: write off, queue %q: %w", queue, setting.New("n", n, "1 or more"))
	}
	if a.refuse != nil {
		return a.refuse
	}
	of := Message{VHost: vhost, Queue: queue}
	done, err := writeOff.Run(ctx, a.rdb, []string{a.opts.keys(of).tombstones}, n, before).Int()
	switch {
	case err != nil:
		return fmt.Errorf("counter: write off, queue %q: %w", queue, a.errorAt(of, err))
	case done == 0:
		return fmt.Errorf("counter: write off, queue %q: %w", queue, ErrWriteOff)
	}
	return nil
}
