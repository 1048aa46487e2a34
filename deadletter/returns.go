package deadletter

import (
	"context"
	"fmt"

	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/internal/printable"
)

// Returns keeps, for each dead-letter queue, the highest number of times that a message of it was returned. A
// *counter.Admin is one.
type Returns interface {
	// Returns returns the number that was noted last, or 0 if there is none.
	Returns(ctx context.Context, vhost, queue string) (int64, error)
	// NoteReturns notes the number; 0 forgets it.
	NoteReturns(ctx context.Context, vhost, queue string, highest int64) error
}

// wear watches how often the messages of a quorum queue are returned while a session reads it: the broker deletes a
// message above the delivery limit of its queue, and each read returns all that it was delivered. A count that is not
// known is no reason to refuse here: Handling allows no reading where the limit is low.
type wear struct {
	q      *Queue
	before int64 // noted by earlier sessions; 0: not known
	seen   int64 // the highest count of a delivery in this session, before its return
}

// mostReturns is how often a message may have been returned when the queue is read. Where only force reads the queue,
// it is the limit itself: one more return deletes the message.
func (h Handling) mostReturns() int64 {
	if h.Limit >= broker.EnoughReturns {
		return h.Limit / 2
	}
	return h.Limit
}

// begin refuses, before anything is delivered, a queue in which an earlier session saw a message near its limit.
// Where only force reads the queue it also refuses if the store does not say that, or does not note this read: then
// nothing would stop the read that deletes.
func (w *wear) begin(ctx context.Context, vhost string, ready int) error {
	if w.q.Returns == nil || w.q.Handling.Limit == 0 {
		return nil
	}
	forced := w.q.Handling.Limit < broker.EnoughReturns
	asking, cancel := context.WithTimeout(ctx, noteTime)
	defer cancel()
	var err error
	if w.before, err = w.q.Returns.Returns(asking, vhost, w.q.Name); err != nil {
		w.before = 0
		return w.unknown(forced, "say", err)
	}
	if ready == 0 { // later messages are others
		w.end(ctx, vhost, true)
		return nil
	}
	if err := w.q.Handling.check(w.q.Name, w.before); err != nil || !forced {
		return err
	}
	err = w.q.Returns.NoteReturns(asking, vhost, w.q.Name, w.before+1)
	w.before++
	return w.unknown(forced, "note", err)
}

// unknown refuses to read by force a queue whose returns the store does not know.
func (w *wear) unknown(forced bool, does string, err error) error {
	if !forced || err == nil {
		return nil
	}
	return fmt.Errorf("%w to read queue %q: the store does not %s how often its messages were returned, and at more "+
		"than %d the broker deletes one: %w",
		ErrWorn, w.q.Name, does, w.q.Handling.Limit, err)
}

// check refuses to read a queue with a message that was returned so often.
func (h Handling) check(queue string, returns int64) error {
	if h.Limit == 0 || returns < h.mostReturns() {
		return nil
	}
	return fmt.Errorf("%w to read queue %q: a message was returned to it %s, and at more than %d the broker "+
		"deletes it; replay or drop everything, which returns nothing",
		ErrWorn, queue, printable.Plural(int(returns), "time"), h.Limit)
}

// end notes the highest count of the messages, after all were returned once more. If whole, the session had the whole
// queue. A queue far from its limit is not noted. A note that fails is lost. The next session then finds out by
// itself, because a limit of a million leaves half a million reads, and because begin noted a read by force.
func (w *wear) end(ctx context.Context, vhost string, whole bool) {
	if w.q.Returns == nil || w.q.Handling.Limit == 0 {
		return
	}
	highest := int64(0)
	if w.seen > 0 {
		highest = w.seen + 1
	}
	if !whole {
		highest = max(highest, w.before)
	}
	if highest < w.q.Handling.mostReturns()/4 {
		highest = 0
	}
	if highest == w.before {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), noteTime)
	defer cancel()
	_ = w.q.Returns.NoteReturns(ctx, vhost, w.q.Name, highest)
}
