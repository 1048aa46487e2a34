package deadletter

import (
	"context"

	"github.com/strikesmq/strikes/counter"
)

// drop gives up the first messages of the lane, most of them at most; zero: all that were read.
func (w *laneWork) drop(ctx context.Context, most int) error {
	at := map[int64][]*Message{}
	for _, p := range w.plan.Found {
		at[p.Position.Number] = append(at[p.Position.Number], w.found[p.Index])
	}
	var letters []*Message
	var positions []counter.Position
	missing := 0
	for i, n := range w.state.Open {
		if most > 0 && i == most {
			break
		}
		if len(at[n]) == 0 && !w.l.Missing {
			break
		}
		if len(at[n]) == 0 {
			missing++
		}
		letters = append(letters, at[n]...)
		positions = append(positions, counter.Position{Since: w.state.Since, Number: n})
	}
	if len(positions) == 0 {
		return w.nothing()
	}
	if w.l.Keep != nil && len(letters) > 0 {
		if err := w.l.Keep(letters); err != nil {
			return err
		}
	}
	released, err := w.l.Store.DropPositions(ctx, w.vhost, w.l.Queue, w.l.Name, positions)
	if err != nil {
		return err
	}
	w.result.Dropped, w.result.Missing = w.result.Dropped+len(positions), w.result.Missing+missing
	w.result.Released = released
	if err := w.settle(letters); err != nil {
		for _, m := range letters {
			w.result.Undecided = remember(w.result.Undecided, m)
		}
		return err
	}
	return nil
}

// dropMissing gives up the first positions whose dead letters are not in the dead-letter queue.
func (w *laneWork) dropMissing(ctx context.Context) error {
	var positions []counter.Position
	for _, n := range w.plan.Missing {
		if len(w.plan.Found) > 0 && n > w.plan.Found[0].Position.Number {
			break
		}
		positions = append(positions, counter.Position{Since: w.state.Since, Number: n})
	}
	if _, err := w.l.Store.DropPositions(ctx, w.vhost, w.l.Queue, w.l.Name, positions); err != nil {
		return err
	}
	w.result.Dropped, w.result.Missing = w.result.Dropped+len(positions), w.result.Missing+len(positions)
	return nil
}

// dropReplaced gives up the positions whose messages have later ones, and reports whether there were any.
func (w *laneWork) dropReplaced(ctx context.Context) (any bool, err error) {
	if !w.isReplaced() {
		return false, nil
	}
	positions := make([]counter.Position, 0, len(w.plan.Replaced))
	for _, n := range w.plan.Replaced {
		positions = append(positions, counter.Position{Since: w.state.Since, Number: n})
	}
	_, err = w.l.Store.DropPositions(ctx, w.vhost, w.l.Queue, w.l.Name, positions)
	return true, err
}
