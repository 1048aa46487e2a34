package counter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/strikesmq/strikes/counter/rules"
	"github.com/strikesmq/strikes/internal/setting"
)

// ErrNoRecord is wrapped by LimitMessage, Reset and Skip if the generation has no record: nothing is done. Get lists
// the generations.
var ErrNoRecord = errors.New("this generation of the message has no record")

// ErrOver is wrapped by LimitMessage and Skip if the message was dead-lettered or handled, and by LimitMessage if it
// was skipped. This generation gets no more attempts, and nothing is done. Reset lifts a tombstone and a skip. A
// message that is in the dead-letter queue can be replayed.
var ErrOver = errors.New("the message was dead-lettered, skipped or handled already, so nothing is done")

// byOperator is the token of a step that belongs to no attempt.
const byOperator = "operator"

// LimitMessage gives one generation of a message a limit of its own, in attempts: 1 to 1001, with the first; 0 takes
// it back. It replaces the limit of the consumers, the queue's override and Failure.AtMost, and lifts the MaxAge. It
// is in force at the message's next step on every consumer, until a Reset or the end of the generation. A message that
// has failed that often already is dead-lettered at its next step. A pause for the message ends. After another error
// than ErrNoRecord and ErrOver it may be set or not. It is safe to repeat.
func (a *Admin) LimitMessage(ctx context.Context, m Message, attempts int, n Note) error {
	if attempts < 0 || attempts > rules.MaxLimit {
		return failed("limit message", m.Queue, setting.New("attempts", attempts, fmt.Sprintf("0 to %d", rules.MaxLimit)))
	}
	take := func(r *Record, q *rules.Queue, _ Note, now time.Time) (Reply, time.Duration) {
		return rules.Limit(r, q, attempts, now)
	}
	return a.decide(ctx, "limit message", m, n, take)
}

// Reset clears one generation of a message: its counts, tombstone, wait, suspicion and own limit. The note, the fence
// and the known attempts remain. So a late step of an attempt that was counted before is not counted now. A message in
// the dead-letter queue stays there. Reset does not stop an open attempt; if that fails, it is the first one counted.
// A pause for the message ends. After an error other than ErrNoRecord it may or may not be done; it is safe to repeat.
func (a *Admin) Reset(ctx context.Context, m Message, n Note) error {
	return a.decide(ctx, "reset", m, n, rules.Reset)
}

// decide takes an operator's step, and ends a pause for its message with it. A refusal of the rule is an error.
func (a *Admin) decide(ctx context.Context, verb string, m Message, n Note,
	take func(*Record, *rules.Queue, Note, time.Time) (Reply, time.Duration)) error {
	if err := cmp.Or(checkNote(n), refusedField(Attempt{Message: m, Token: byOperator})); err != nil {
		return failed(verb, m.Queue, err)
	}
	n = keptNote(n)
	t := newTaking(m, func(r *Record, q *rules.Queue, now time.Time) (Reply, time.Duration) { return take(r, q, n, now) })
	names := slices.Concat(aboutQueue, []string{t.record, docPause})
	err := a.insist(ctx, Queue{m.VHost, m.Queue}, names, func(now time.Time, docs []Doc) (Change, error) {
		about, record, pause := docs[:len(aboutQueue)], docs[len(aboutQueue)], docs[len(aboutQueue)+1]
		change, err := a.client.decide(about, record, t, now)
		switch {
		case err != nil || pause.Err != nil || change.isEmpty(): // another program's pause needs no end
			return change, err
		case decodeFields(pause.Data)["message"] == member(m.ID, m.Generation):
			change.Docs = append(change.Docs, paused(pause, map[string]string{"paused": "0"}, n, now))
		default: // HoldQueue may be about to pause the queue for the message as it was
			change.Same = append(change.Same, pause)
		}
		return change, nil
	})
	switch {
	case err != nil:
	case t.reply.Code == rules.ReplyNone:
		err = ErrNoRecord
	case t.reply.Code == rules.ReplyOver:
		err = ErrOver
	}
	return failed(verb, m.Queue, err)
}

// Skip has one generation of a message dead-lettered at its next step, whatever its limit: now if it waits for its
// backoff. The record and the tombstone keep the Note; the tombstone has CauseSkipped and the reason of the Note. A
// running attempt may end: if it succeeds, the message is handled. Reset cancels a skip. A message that was skipped
// before keeps its first Note, which Skip returns; else it returns nil. A pause for the message ends. After an error
// other than ErrNoRecord and ErrOver it may or may not be skipped; it is safe to repeat.
func (a *Admin) Skip(ctx context.Context, m Message, n Note) (before *Note, err error) {
	err = a.decide(ctx, "skip", m, n, func(r *Record, q *rules.Queue, n Note, now time.Time) (Reply, time.Duration) {
		if before = nil; r.State == StateSkip {
			before = new(r.Skipped)
		}
		return rules.Skip(r, q, n, now)
	})
	if err != nil {
		return nil, err
	}
	// An announcement lets the process that holds the message end its wait. Those that are over go.
	of := Queue{m.VHost, m.Queue}
	err = a.insist(ctx, of, nil, func(now time.Time, _ []Doc) (change Change, err error) {
		past, err := a.store.Page(ctx, of, setSkips, Entry{Score: now.UnixMilli()}, page)
		until, name := now.Add(skipAnnounced), member(m.ID, m.Generation)
		for _, e := range past {
			if e.Name != name {
				change.Sets = append(change.Sets, Member{Set: setSkips, Name: e.Name, Gone: true})
			}
		}
		change.Sets = append(change.Sets, Member{Set: setSkips, Name: name, Score: until.UnixMilli(),
			Expires: until.Add(time.Minute)})
		return change, err
	})
	return before, failed("skip", m.Queue, err)
}
