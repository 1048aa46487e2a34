package deadletter

import (
	"context"

	"github.com/strikesmq/strikes/counter"
)

// drop gives up the first messages of the lane.
func (w *laneWork) drop(ctx context.Context, most int) error {
	at := map[int64][]*Message{}
	for i, name := range w.named {
		if p, ok := w.state.PlaceOf(name); ok {
			at[p.Number] = append(at[p.Number], w.found[i])
		}
	}
	var letters []*Message
	var places []counter.Place
	missing := 0
	for _, n := range w.state.Open[:min(most, len(w.state.Open))] {
		if len(at[n]) == 0 && !w.l.Missing {
			break
		}
		if len(at[n]) == 0 {
			missing++
		}
		letters = append(letters, at[n]...)
		places = append(places, counter.Place{Since: w.state.Since, Number: n})
	}
	if len(places) == 0 {
		return w.nothing()
	}
	if w.l.Keep != nil && len(letters) > 0 {
		if err := w.l.Keep(letters); err != nil {
			return err
		}
	}
	released, err := w.l.Store.DropPlaces(ctx, w.vhost, w.l.Queue, w.l.Name, places)
	if err != nil {
		return err
	}
	w.result.Dropped, w.result.Missing = w.result.Dropped+len(places), w.result.Missing+missing
	w.result.Released = released
	if err := w.settle(letters); err != nil {
		for _, m := range letters {
			w.result.Undecided = remember(w.result.Undecided, m)
		}
		return err
	}
	return nil
}
