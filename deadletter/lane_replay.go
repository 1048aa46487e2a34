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
	if err := w.takeDoubles(ctx); err != nil {
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

func (w *laneWork) takeDoubles(ctx context.Context) error {
	var doubles []*Message
	for _, p := range w.plan.Doubles {
		doubles = append(doubles, w.found[p.Index])
	}
	if len(doubles) == 0 {
		return nil
	}
	if err := w.settle(doubles); err != nil {
		return err
	}
	w.result.Doubles += len(doubles)
	return w.l.Store.NoteReplayed(ctx, w.vhost, w.l.Queue, w.l.Name, w.letters(w.plan.Doubles))
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
	if settleErr := w.takePublished(sending, part[:done]); err == nil {
		err = settleErr
	}
	return done, err
}

func (w *laneWork) takePublished(ctx context.Context, part []counter.Planned) error {
	var messages []*Message
	for _, p := range part {
		messages = append(messages, w.found[p.Index])
	}
	if err := w.settle(messages); err != nil {
		return err
	}
	w.result.Replayed += len(messages)
	return w.l.Store.NoteReplayed(ctx, w.vhost, w.l.Queue, w.l.Name, w.letters(part))
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
