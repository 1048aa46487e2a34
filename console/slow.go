package console

import (
	"context"
	"errors"
	"time"

	"github.com/strikesmq/strikes/counter"
)

// slowStore is how long a page repeats its requests to a store that does not reply in time. The store's timeout suits consumers, which
// repeat a step: on a busy machine one reply in a thousand is late.
const slowStore = 2 * time.Second

// whileSlow repeats ask, which only reads, while the store is slow.
func whileSlow[T any](ctx context.Context, ask func() (T, error)) (T, error) {
	for begun := time.Now(); ; {
		value, err := ask()
		var store *counter.StoreError
		slow := errors.As(err, &store) && store.Fault == counter.FaultSlow
		if !slow || ctx.Err() != nil || time.Since(begun) > slowStore {
			return value, err
		}
	}
}
