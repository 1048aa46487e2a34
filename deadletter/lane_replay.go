package deadletter

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/strikesmq/strikes/counter"
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
	planned := w.plan.Publish[:min(most, len(w.plan.Publish))]
	for len(planned) > 0 && err == nil {
		part := planned[:min(picked, len(planned))]
		planned = planned[len(part):]
		var n int
		n, err = w.publishPart(ctx, pub, part)
		for _, p := range part[:n] {
			published = append(published, p.Position)
		}
	}
	return published, err
}

// nothing explains a plan with nothing to publish.
func (w *laneWork) nothing() error {
	if len(w.plan.Missing) > 0 {
		return w.fail(ErrLaneMissing, w.state.Dead()[w.plan.Missing[0]])
	}
	return w.fail(ErrLaneWaiting, "")
}

func (w *laneWork) fail(err error, id string) error {
	if id == "" {
		return fmt.Errorf("deadletter: queue %q, lane %q: %w", w.l.Queue, w.l.Name, err)
	}
	return fmt.Errorf("deadletter: queue %q, lane %q, message %q: %w", w.l.Queue, w.l.Name, id, err)
}

// takeOff takes dead letters of the plan off that are in the work queue, and counts them.
func (w *laneWork) takeOff(ctx context.Context, planned []counter.Planned, count *int) error {
	if len(planned) == 0 {
		return nil
	}
	var messages []*Message
	for _, p := range planned {
		messages = append(messages, w.found[p.Index])
	}
	if err := w.settle(messages); err != nil {
		return err
	}
	*count += len(messages)
	return w.l.Store.NoteReplayed(ctx, w.vhost, w.l.Queue, w.l.Name, w.letters(planned))
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
	if err := w.l.Store.NotePublishing(ctx, w.vhost, w.l.Queue, w.l.Name, w.letters(part)); err != nil {
		return 0, err
	}
	batch := make([]publisher.Message, 0, len(part))
	for _, p := range part {
		m := w.found[p.Index]
		to, err := (*Target)(nil).destination(m)
		if err != nil {
			return 0, err
		}
		msg := m.forReplay(w.q.Name, w.l.Queue, time.Now())
		msg.Headers[PositionHeader] = p.Position.String()
		batch = append(batch, publisher.Message{Exchange: to.Exchange, Key: to.Key, Publishing: msg})
	}
	sending, cancel := outlive(ctx)
	defer cancel()
	done = len(part)
	var failed *publisher.BatchError
	if err = pub.PublishAll(sending, batch); errors.As(err, &failed) {
		for done = 0; failed.Errs[done] == nil; done++ {
		}
	} else if err != nil {
		return 0, err
	}
	if settleErr := w.takeOff(sending, part[:done], &w.result.Replayed); err == nil {
		err = settleErr
	}
	return done, err
}

func (w *laneWork) settle(messages []*Message) error {
	for len(messages) > 0 {
		part := messages[:min(picked, len(messages))]
		messages = messages[len(part):]
		if err := w.source.settle(part); err != nil {
			return err
		}
		w.notes.add(part)
	}
	return nil
}

// await waits until the consumer has handled or blocked what was published.
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
		if w.l.Progress != nil {
			w.l.Progress(state.Messages)
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

// read reads the state of the lane and its dead letters, which it holds until finish. It reports whether the lane is
// held.
func (w *laneWork) read(ctx context.Context) (held bool, err error) {
	begun, wait := time.Now(), laneFirstScan
	for {
		err = w.scan(ctx)
		if err == nil {
			w.noteReplaced()
		}
		switch {
		case errors.Is(err, counter.ErrNotBlocked):
			return false, nil
		case err != nil:
			return false, err
		case !w.isEarly() || w.isReplaced() || time.Since(begun) > w.l.Wait || w.l.Missing && time.Since(begun) > lingers:
			return true, nil
		}
		w.finish(ctx) // dead letters may be on their way
		if !pause.For(ctx, wait) {
			return false, ctx.Err()
		}
		wait *= 2 // each read counts as a return of every dead letter
	}
}

// noteReplaced notes the time since which positions are known to be replaced.
func (w *laneWork) noteReplaced() {
	since := map[int64]time.Time{}
	for _, n := range w.plan.Replaced {
		if since[n] = w.replaced[n]; since[n].IsZero() {
			since[n] = time.Now()
		}
	}
	w.replaced = since
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

// scan takes the dead letters of the first positions, and plans what is done with them. It takes nothing if it returns
// an error.
func (w *laneWork) scan(ctx context.Context) (err error) {
	if w.state, err = w.l.Store.Lane(ctx, w.vhost, w.l.Queue, w.l.Name); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			w.finish(ctx)
		}
	}()
	until := w.lastOfPass()
	taken, err := w.take(ctx, until)
	if err != nil {
		return err
	}
	now, err := w.l.Store.Lane(ctx, w.vhost, w.l.Queue, w.l.Name)
	if err != nil {
		return err
	}
	w.state = w.state.ForTaken(until, now)
	w.found, w.named = nil, nil
	letters := []counter.LaneDeadLetter{}
	for _, m := range taken {
		if name, _, ok := w.name(m); ok {
			w.found, w.named = append(w.found, m), append(w.named, name)
			letters = append(letters, counter.LaneDeadLetter{Message: name, Replays: m.Replays})
		}
	}
	w.plan = w.state.Plan(letters)
	if w.q.Records == nil || len(w.found) == 0 {
		return nil
	}
	j := joiner{records: w.q.Records, vhost: w.vhost} // their tombstones note that they are taken off
	return j.lookUp(ctx, w.found, generationsOf)
}

// take takes the dead letters of the positions up to a number.
func (w *laneWork) take(ctx context.Context, until int64) (taken []*Message, err error) {
	pick := func(m *Message) bool {
		_, position, ok := w.name(m)
		return ok && position.Number <= until
	}
	unjoined := *w.q
	unjoined.Records = nil // most have no record, which would have all generations of the queue listed
	if w.source, err = unjoined.chooseAll(ctx, Filter{match: pick}); err != nil {
		w.source = nil
		return nil, err
	}
	for {
		some, err := w.source.next(ctx, page)
		if err != nil || len(some) == 0 {
			return taken, err
		}
		taken = append(taken, some...)
	}
}

// name returns the generation of a dead letter that the lane expects.
func (w *laneWork) name(m *Message) (counter.Message, counter.Position, bool) {
	if m.Origin.Queue != w.l.Queue {
		return counter.Message{}, counter.Position{}, false
	}
	for _, g := range generationsOf(m) {
		name := counter.Message{VHost: w.vhost, Queue: w.l.Queue, ID: m.Name(), Generation: g}
		if p, ok := w.state.PositionOf(name); ok {
			return name, p, true
		}
	}
	return counter.Message{}, counter.Position{}, false
}

// finish returns what is left to the dead-letter queue.
func (w *laneWork) finish(ctx context.Context) {
	if w.source == nil {
		return
	}
	w.notes.finish(ctx)
	w.source.finish(ctx)
	w.source = nil
}
