package deadletter

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/internal/pause"
	"github.com/strikesmq/strikes/publisher"
)

// replay takes doubles off, and publishes dead letters of the plan.
func (w *laneWork) replay(ctx context.Context, pub *publisher.Publisher, most int) (published []counter.Position,
	err error) {
	if len(w.plan.Publish) == 0 {
		return nil, w.nothing()
	}
	if err := w.takeOff(ctx, w.plan.Doubles, &w.result.Doubles); err != nil {
		return nil, err
	}
	for part := range slices.Chunk(w.plan.Publish[:min(most, len(w.plan.Publish))], picked) {
		n, err := w.publishPart(ctx, pub, part)
		for _, p := range part[:n] {
			published = append(published, p.Position)
		}
		if err != nil {
			return published, err
		}
	}
	return published, nil
}

// nothing explains a plan with nothing to publish.
func (w *laneWork) nothing() error {
	if len(w.plan.Missing) > 0 {
		return w.fail(ErrLaneMissing, w.state.Dead()[w.plan.Missing[0]])
	}
	return w.fail(ErrLaneWaiting, "")
}

func (w *laneWork) fail(err error, id string) error {
	return &LaneError{Queue: w.l.Queue, Lane: w.l.Name, ID: id, Err: err}
}

// takeOff takes dead letters of the plan off that are in the work queue, and counts them.
func (w *laneWork) takeOff(ctx context.Context, planned []counter.Planned, count *int) error {
	if len(planned) == 0 {
		return nil
	}
	letters := w.letters(planned)
	if err := w.l.Store.NotePublished(ctx, w.vhost, w.l.Queue, w.l.Name, letters); err != nil {
		return err
	}
	var messages []*Message
	for _, p := range planned {
		messages = append(messages, w.found[p.Index])
	}
	if err := w.settle(messages); err != nil {
		return err
	}
	*count += len(messages)
	return w.l.Store.NoteReplayed(ctx, w.vhost, w.l.Queue, w.l.Name, letters)
}

// letters names dead letters of the plan to the store.
func (w *laneWork) letters(planned []counter.Planned) []counter.LaneLetter {
	out := make([]counter.LaneLetter, 0, len(planned))
	for _, p := range planned {
		out = append(out, counter.LaneLetter{Message: w.named[p.Index], Position: p.Position})
	}
	return out
}

// publishPart publishes some dead letters in their order, and takes off those before the first that is not confirmed.
func (w *laneWork) publishPart(ctx context.Context, pub *publisher.Publisher, part []counter.Planned) (done int,
	err error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	batch := make([]publisher.Message, 0, len(part))
	for _, p := range part {
		m := w.found[p.Index]
		to, err := m.again(w.q.Name)
		if err != nil {
			return 0, err
		}
		to.Publishing = m.forReplay(w.q.Name, w.l.Queue, time.Now())
		to.Publishing.Headers[PositionHeader] = p.Position.String()
		batch = append(batch, to)
	}
	sending, cancel := pause.Outlive(ctx, lastConfirms, confirmTime)
	defer cancel()
	var failed *publisher.BatchError
	switch err = pub.PublishAll(sending, batch); {
	case err == nil:
		done = len(part)
	case errors.As(err, &failed):
		for failed.Errs[done] == nil {
			done++
		}
		err = asReplay(failed.Errs[done])
	}
	return done, cmp.Or(err, w.takeOff(sending, part[:done], &w.result.Replayed))
}

func (w *laneWork) settle(messages []*Message) error {
	for part := range slices.Chunk(messages, picked) {
		if err := w.source.settle(part); err != nil {
			return err
		}
		w.notes.add(part)
	}
	return nil
}

// await waits until the consumer has handled or blocked the messages that the replay has published.
func (w *laneWork) await(ctx context.Context, published []counter.Position) error {
	if len(published) == 0 {
		return nil
	}
	before := -1
	for deadline := time.Now(); ; {
		state, err := w.l.Store.Lane(ctx, w.vhost, w.l.Queue, w.l.Name)
		if errors.Is(err, counter.ErrNotBlocked) {
			return nil
		}
		if err != nil {
			return err
		}
		dead, waiting := state.Dead(), 0
		for _, p := range published {
			if _, blocked := dead[p.Number]; state.IsOpen(p) && !blocked {
				waiting++
			}
		}
		if waiting != before {
			before, deadline = waiting, time.Now().Add(w.l.Wait)
		}
		switch {
		case waiting == 0 && state.IsOpen(published[0]):
			return w.fail(ErrLaneFailed, dead[published[0].Number])
		case waiting == 0:
			return nil
		case time.Now().After(deadline):
			return w.fail(ErrLaneWaiting, "")
		}
		if !pause.For(ctx, lanePoll) {
			return ctx.Err()
		}
	}
}

// read reads the states of lanes and their dead letters, which it holds until finish. It returns the lanes to go on
// with. The state of a lane that is no longer blocked is nil. It waits for dead letters that may be on their way,
// unless another lane is ready.
func (r *laneRead) read(ctx context.Context, work []*laneWork) ([]*laneWork, error) {
	for wait := laneFirstScan; ; wait *= 2 { // each read counts as a return of every dead letter
		scanned, err := r.scan(ctx, work)
		if err != nil {
			return nil, err
		}
		var ready []*laneWork
		for _, w := range scanned {
			if w.isReady() {
				w.begun = time.Time{}
				ready = append(ready, w)
			}
		}
		if len(ready) > 0 {
			return ready, nil
		}
		r.finish(ctx)
		if !pause.For(ctx, wait) {
			return nil, ctx.Err()
		}
	}
}

// isReady reports whether to go on with a lane that was read. If not, its dead letters may be on their way. A reading
// sees the dead letters that arrived before it began, however long it takes.
func (w *laneWork) isReady() bool {
	if w.state == nil {
		return true
	}
	since := map[int64]time.Time{} // when each position was first known as replaced
	for _, n := range w.plan.Replaced {
		if since[n] = w.replaced[n]; since[n].IsZero() {
			since[n] = time.Now()
		}
	}
	w.replaced = since
	waited := w.at.Sub(w.begun)
	return !w.isEarly() || w.isReplaced() || waited > w.l.Wait || w.l.Missing && waited > lingers
}

// isReplaced reports whether to give up the first position, because its message has a later one. The fate of one
// position decides that of the others. So all such positions are given up at once, when each has been known as replaced
// for longer than a dead letter takes to arrive. Half of Wait is enough for that, because Wait also has room for slow
// scans.
func (w *laneWork) isReplaced() bool {
	if len(w.plan.Publish)+len(w.plan.Missing) > 0 || len(w.plan.Replaced) == 0 {
		return false
	}
	for _, n := range w.plan.Replaced {
		if time.Since(w.replaced[n]) < min(w.l.Wait/2, laneArriving) {
			return false
		}
	}
	return true
}

// isEarly reports whether messages that are to be published or dropped now may be about to become dead letters.
func (w *laneWork) isEarly() bool {
	late := w.whole && w.l.Missing && len(w.plan.Missing) > 0 && w.plan.Missing[0] <= w.lastOfPass()
	return len(w.plan.Publish) == 0 || late
}

// lastOfPass is the last position whose dead letter is taken with those before it.
func (w *laneWork) lastOfPass() int64 { return w.state.Open[len(w.state.Open)-1] }

// laneLetter is a dead letter that a lane expects.
type laneLetter struct{ queue, name string }

// claim notes the dead letters that a lane expects. If another lane expects one of them, claim notes none and returns
// false. Such a dead letter may be of either lane, so the lanes are replayed one after the other.
func (w *laneWork) claim(expects map[laneLetter]*laneWork) bool {
	names := w.state.Letters()
	for _, name := range names {
		if expects[laneLetter{w.l.Queue, name}] != nil {
			return false
		}
	}
	for _, name := range names {
		expects[laneLetter{w.l.Queue, name}] = w
	}
	return true
}

// scan takes the dead letters of the first positions of lanes, and plans to publish or drop them. It returns the lanes
// that it has read, the first one at least. It leaves out a lane that expects the same dead letter as a lane before it.
// If it returns an error, it has taken nothing.
func (r *laneRead) scan(ctx context.Context, work []*laneWork) (scanned []*laneWork, err error) {
	defer func() {
		if err != nil {
			r.finish(ctx)
		}
	}()
	r.at = time.Now()
	expects, letters, refused := map[laneLetter]*laneWork{}, 0, 0
	for i := 0; i < len(work) && letters < mostLetters && refused < mostAlike; i++ {
		w := work[i]
		if err := w.readState(ctx); err != nil {
			return nil, err
		}
		if w.state != nil && !w.claim(expects) {
			refused++
			w.state, w.begun = nil, time.Time{} // the lane before it may change which dead letters are on their way
			continue
		}
		if scanned, w.found = append(scanned, w), nil; w.state != nil {
			letters += len(w.state.Open)
		}
	}
	if letters > 0 {
		if err := r.take(ctx, expects); err != nil {
			return nil, err
		}
	}
	for _, w := range scanned {
		if w.begun.IsZero() {
			w.begun = r.at
		}
		if w.state == nil {
			continue
		}
		if err := w.planTaken(ctx); err != nil {
			return nil, err
		}
	}
	return scanned, nil
}

// readState reads the state of the lane; nil: it is not blocked.
func (w *laneWork) readState(ctx context.Context) (err error) {
	w.state, err = w.l.Store.Lane(ctx, w.vhost, w.l.Queue, w.l.Name)
	if errors.Is(err, counter.ErrNotBlocked) {
		w.state, err = nil, nil
	}
	return err
}

// planTaken plans the replay of the dead letters that were taken. It reads the state of the lane again, because it may
// have changed meanwhile.
func (w *laneWork) planTaken(ctx context.Context) error {
	before, until, taken := w.state, w.lastOfPass(), w.found
	if err := w.readState(ctx); err != nil || w.state == nil {
		return err
	}
	w.state = before.ForTaken(until, w.state)
	w.found, w.named = nil, nil
	letters := []counter.LaneDeadLetter{}
	for _, m := range taken {
		name := counter.Message{VHost: w.vhost, Queue: w.l.Queue, ID: m.Name(), Generation: laneGeneration(m)}
		if _, ok := w.state.PositionOf(name); ok {
			w.found, w.named = append(w.found, m), append(w.named, name)
			letters = append(letters, counter.LaneDeadLetter{Message: name, Replays: m.Replays})
		}
	}
	w.plan = w.state.Plan(letters)
	if w.until == (counter.Position{}) {
		w.until = counter.Position{Since: w.state.Since, Number: w.state.Last}
	}
	if w.q.Records == nil || len(w.found) == 0 {
		return nil
	}
	j := joiner{records: w.q.Records, vhost: w.vhost} // their tombstones note that they are taken off
	return j.lookUp(ctx, w.found, generationsOf)
}

// take takes the dead letters that lanes expect.
func (r *laneRead) take(ctx context.Context, expects map[laneLetter]*laneWork) (err error) {
	laneOf := func(m *Message) *laneWork {
		name := counter.LetterName(counter.Message{ID: m.Name(), Generation: laneGeneration(m)})
		return expects[laneLetter{m.Origin.Queue, name}]
	}
	unjoined := *r.q
	unjoined.Records = nil // most have no record, which would have all generations of the queue listed
	pick := Filter{match: func(m *Message) bool { return laneOf(m) != nil }}
	if r.source, err = unjoined.chooseAll(ctx, pick); err != nil {
		r.source = nil
		return err
	}
	for {
		some, err := r.source.next(ctx, page)
		if err != nil || len(some) == 0 {
			return err
		}
		for _, m := range some {
			w := laneOf(m)
			w.found = append(w.found, m)
		}
	}
}

// laneGeneration returns the generation by which a lane expects a dead letter. It leaves out deaths, because a dead
// letter does not tell before which death it was moved back.
func laneGeneration(m *Message) string {
	first := m.ours().FirstGeneration()
	if m.ID == "" {
		first += broker.LaneMark(m.Publishing.Headers, m.Origin.Key)
	}
	return first
}

// finish returns the other messages to the dead-letter queue.
func (r *laneRead) finish(ctx context.Context) {
	if r.source == nil {
		return
	}
	r.notes.finish(ctx)
	r.source.finish(ctx)
	r.source = nil
}
