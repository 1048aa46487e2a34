package deadletter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/internal/setting"
	"github.com/strikesmq/strikes/publisher"
)

// PositionHeader of a message that ReplayLane published is its position in its lane.
const PositionHeader = broker.PositionHeader

// Lanes keeps the lanes of queues whose consumers hold them (consumer.Consumer.HoldLanes). A *counter.Admin is one.
type Lanes interface {
	Lane(ctx context.Context, vhost, queue, lane string) (*counter.LaneState, error)
	NotePublished(ctx context.Context, vhost, queue, lane string, letters []counter.LaneLetter) error
	NoteReplayed(ctx context.Context, vhost, queue, lane string, letters []counter.LaneLetter) error
	DropPositions(ctx context.Context, vhost, queue, lane string, positions []counter.Position) (released bool, err error)
}

// Lane is a blocked lane of a work queue, whose dead letters are in a dead-letter queue.
type Lane struct {
	Queue string // the work queue; must not be empty
	Name  string // of the lane
	Store Lanes  // must not be nil

	// Passes is how many times ReplayLane reads the dead-letter queue before it returns ErrLaneBusy. If zero, 20.
	Passes int

	// Wait is how long ReplayLane waits for the consumer to handle the next published message, and for dead letters on
	// their way. If zero, a minute.
	Wait time.Duration

	// First, if not zero, is the position of the message that blocks the lane, as counter.LaneState.First returned it. If
	// another blocks it when DropFirst or DropLane begins, they return ErrLaneChanged. So two operators who look at the
	// same message drop only that one, and a lane that was released and is blocked anew is not dropped.
	First counter.Position

	// Missing drops positions whose dead letters are not in the dead-letter queue: they expired, were consumed
	// elsewhere, or were lost, or the store was rolled back to a time before they were replayed. DropFirst and
	// DropLane also drop messages that were replayed and still wait in the work queue: these are acked without an
	// attempt.
	Missing bool

	// Keep, if not nil, gets the dead letters that are dropped, before they are: it must have stored them when it returns
	// nil.
	Keep func([]*Message) error
}

// LaneResult counts the changes of a lane.
type LaneResult struct {
	Replayed int  // dead letters published and taken off
	Dropped  int  // messages given up
	Missing  int  // of Dropped, those whose dead letters were not in the dead-letter queue: Keep did not get them
	Doubles  int  // dead letters taken off that had been published before
	Released bool // no message blocks the lane any more
	Passes   int

	// Undecided names messages of Dropped that Keep got, and that may still be in the dead-letter queue: no lane expects
	// them there. At most a thousand; see Message.Name.
	Undecided []string
}

// Errors of ReplayLane, DropFirst and DropLane. The lane stays blocked, and nothing is lost; each may be called again.
var (
	// ErrLaneFailed says that the first message of the lane was dead-lettered again: fix its cause, or drop it.
	ErrLaneFailed = errors.New("the message that blocks the lane failed again")
	// ErrLaneMissing says that a message of the lane is no dead letter here: it is on its way, expired, or was consumed
	// elsewhere.
	ErrLaneMissing = errors.New("a dead letter of the lane is not in the dead-letter queue")
	// ErrLaneWaiting says that the consumer did not handle a replayed message in time: check that it runs and that its
	// queue is not paused.
	ErrLaneWaiting = errors.New("a replayed message of the lane waits in the work queue")
	// ErrLaneChanged says that another message than Lane.First blocks the lane: read the lane again.
	ErrLaneChanged = errors.New("another message blocks the lane now")
	// ErrLaneBusy says that new messages of the lane arrived in each pass: pause their publishers, then replay the lane
	// again.
	ErrLaneBusy = errors.New("new messages of the lane arrive faster than they are replayed")
)

// LaneError says why ReplayLane, DropFirst or DropLane did not release a lane. ReplayLanes passes it to ended. It wraps
// one of the errors above, or counter.ErrNotBlocked. Errors of the broker and the store are not LaneErrors.
type LaneError struct {
	Queue, Lane string
	ID          string // of the message that failed again or is missing; else empty
	Err         error
}

func (e *LaneError) Error() string {
	message := ""
	if e.ID != "" {
		message = fmt.Sprintf(", message %q", e.ID)
	}
	return fmt.Sprintf("deadletter: queue %q, lane %q%s: %v", e.Queue, e.Lane, message, e.Err)
}

func (e *LaneError) Unwrap() error { return e.Err }

const (
	lanePasses = 20
	laneWait   = time.Minute
	lanePoll   = 100 * time.Millisecond

	mostAlike   = 100  // lanes of one reading that wait for others, because their dead letters look alike
	mostLetters = 1000 // of the lanes of one reading, without those of the last lane

	laneFirstScan = 250 * time.Millisecond // before the second; doubled for each that follows
	laneArriving  = 15 * time.Second       // a dead letter is on its way for less
)

// laneRead reads the dead-letter queue for some lanes together.
type laneRead struct {
	q      *Queue
	vhost  string
	source *source
	notes  notes
	at     time.Time // when the last reading began
}

// laneWork is the work on one lane.
type laneWork struct {
	*laneRead
	l       Lane
	state   *counter.LaneState
	drops   bool      // the first position is to be dropped
	whole   bool      // and then all others
	replays bool      // the positions that are left are published
	begun   time.Time // the first reading for this pass; zero: there was none
	found   []*Message
	named   []counter.Message // of each of those
	plan    counter.LanePlan
	passed  bool             // there was a pass
	until   counter.Position // the last position at the first reading: none behind it is given up as missing
	result  LaneResult

	published []counter.Position // by the last pass
	err       error              // of the last pass

	replaced map[int64]time.Time // since when these positions are found to be replaced
}

// ReplayLane publishes the dead letters of a lane again, in the order of the lane, until the lane is released. It
// publishes the first alone, and the others once that is handled. The consumer runs them in their order, whatever else
// reaches the queue, and dead-letters new messages of the lane meanwhile, so it takes several passes. It is safe to end
// at any moment, to repeat, and to run twice at the same time.
func (q *Queue) ReplayLane(ctx context.Context, l Lane) (LaneResult, error) {
	return q.workOn(ctx, &laneWork{l: l, replays: true})
}

// DropFirst takes off and gives up the message that blocks a lane. If there is a next message, it blocks the lane then.
// ReplayLane replays those that are left.
func (q *Queue) DropFirst(ctx context.Context, l Lane) (LaneResult, error) {
	return q.workOn(ctx, &laneWork{l: l, drops: true})
}

// ReleaseLane is DropFirst, and then ReplayLane if messages are left.
func (q *Queue) ReleaseLane(ctx context.Context, l Lane) (LaneResult, error) {
	return q.workOn(ctx, &laneWork{l: l, drops: true, replays: true})
}

// DropLane takes off and gives up all messages of a lane, which releases it. New ones that arrive meanwhile are given
// up too.
func (q *Queue) DropLane(ctx context.Context, l Lane) (LaneResult, error) {
	return q.workOn(ctx, &laneWork{l: l, drops: true, whole: true})
}

// workOn works on one lane.
func (q *Queue) workOn(ctx context.Context, w *laneWork) (result LaneResult, err error) {
	endErr := q.workOnAll(ctx, []*laneWork{w}, func(_ Lane, r LaneResult, laneErr error) error {
		result, err = r, laneErr
		return nil
	})
	return result, cmp.Or(err, endErr)
}

// ReplayLanes replays many lanes as ReplayLane replays one. For each pass it reads the dead-letter queue once for
// all lanes, or for the first ones with a thousand dead letters together. Two lanes may expect dead letters that
// look alike: they have one id, or no id and the same content, headers and routing key. Then the second lane waits
// for the first. ReplayLanes calls ended once for each lane, with a nil error if the lane is released, else with the
// reason why it stays blocked. If ended returns an error, ReplayLanes stops and returns that error. It then also
// calls ended with that error for each other lane that it has changed.
func (q *Queue) ReplayLanes(ctx context.Context, lanes []Lane, ended func(Lane, LaneResult, error) error) error {
	var work []*laneWork
	for _, l := range lanes {
		work = append(work, &laneWork{l: l, replays: true})
	}
	return q.workOnAll(ctx, work, ended)
}

func (q *Queue) workOnAll(ctx context.Context, work []*laneWork, ended func(Lane, LaneResult, error) error) error {
	r, err := q.beginLanes(ctx, work)
	if err != nil {
		return err
	}
	pub, err := publisher.New(q.Dial, &publisher.Options{Window: picked})
	if err != nil {
		return err
	}
	defer func() { _ = pub.CloseWithin(0) }() // each message has waited for its confirm
	for len(work) > 0 {
		var read []*laneWork
		if read, err = r.read(ctx, work); err != nil {
			break
		}
		for _, w := range read {
			w.published, w.err = w.pass(ctx, pub)
		}
		r.finish(ctx)
		for _, w := range read {
			over, laneErr := w.conclude(ctx)
			if !over {
				continue
			}
			work = slices.DeleteFunc(work, func(other *laneWork) bool { return other == w })
			if err = ended(w.l, w.result, laneErr); err != nil {
				break
			}
		}
		if err != nil {
			break
		}
	}
	for _, w := range work {
		if r := w.result; r.Replayed+r.Dropped+r.Doubles > 0 {
			_ = ended(w.l, r, err)
		}
	}
	return err
}

// pass publishes the dead letters that were read of a lane, or gives up positions.
func (w *laneWork) pass(ctx context.Context, pub *publisher.Publisher) (published []counter.Position, err error) {
	if w.state == nil {
		return nil, nil
	}
	if first := w.l.First; w.drops {
		if w.l.First = (counter.Position{}); first != w.l.First && first != w.state.First() { // it is compared once
			return nil, w.fail(ErrLaneChanged, "")
		}
	}
	if w.result.Passes == w.l.Passes {
		return nil, w.fail(ErrLaneBusy, "")
	}
	if replaced, err := w.dropReplaced(ctx); replaced { // the lane is read again
		return nil, err
	}
	if w.drops {
		return nil, w.drop(ctx)
	}
	most := 1
	if w.passed {
		most = len(w.state.Open)
	}
	missing := w.firstMissing()
	if w.l.Missing && len(w.plan.Publish) == 0 && len(w.plan.Missing) > 0 && len(missing) > 0 {
		if _, err := w.giveUp(ctx, missing); err != nil {
			return nil, err
		}
		w.result.Dropped, w.result.Missing = w.result.Dropped+len(missing), w.result.Missing+len(missing)
		return nil, nil
	}
	w.passed = true
	w.result.Passes++
	return w.replay(ctx, pub, most)
}

// conclude waits until the consumer handled the messages that a pass published. It reports whether the work on the lane
// is over: nothing is left to do, or an error ends it.
func (w *laneWork) conclude(ctx context.Context) (over bool, err error) {
	switch {
	case w.err != nil:
		return true, w.err
	case w.state == nil && w.drops && !w.whole:
		return true, w.fail(counter.ErrNotBlocked, "")
	case w.state == nil:
		w.result.Released = true
		return true, nil
	case w.result.Released, !w.drops && !w.replays:
		return true, nil
	}
	err = w.await(ctx, w.published)
	return err != nil, err
}

func (q *Queue) beginLanes(ctx context.Context, work []*laneWork) (*laneRead, error) {
	r := &laneRead{q: q}
	for _, w := range work {
		switch {
		case w.l.Queue == "":
			return nil, fmt.Errorf("deadletter: %w", setting.New("Queue", "", "the work queue of the lane"))
		case w.l.Store == nil:
			return nil, fmt.Errorf("deadletter: %w", setting.New("Store", nil, "a *counter.Admin"))
		}
		w.laneRead, w.l.Passes, w.l.Wait = r, cmp.Or(w.l.Passes, lanePasses), cmp.Or(w.l.Wait, laneWait)
	}
	err := cmp.Or(q.validate(), q.mayRead())
	if err == nil {
		r.vhost, err = q.vhost(ctx)
	}
	r.notes = notes{records: q.Records, vhost: r.vhost}
	return r, err
}

// vhost asks the broker, on a connection of its own.
func (q *Queue) vhost(ctx context.Context) (string, error) {
	conn, err := broker.Connect(ctx, q.Dial)
	if err != nil {
		return "", err
	}
	defer broker.HangUp(conn)
	return conn.Config.Vhost, nil
}

// drop gives up the first message of the lane, or with whole all that were read. Without whole, w.drops then ends.
func (w *laneWork) drop(ctx context.Context) error {
	at := map[int64][]*Message{}
	open, found := w.state.Open, w.plan.Found
	if w.whole { // then it does not matter which of the positions a dead letter has
		found = slices.Concat(found, w.plan.Unsure)
	} else {
		open = open[:1]
	}
	for _, p := range found {
		at[p.Position.Number] = append(at[p.Position.Number], w.found[p.Index])
	}
	var letters []*Message
	missing := 0
	for i, n := range open {
		if len(at[n]) == 0 && !w.l.Missing {
			open = open[:i]
			break
		}
		if len(at[n]) == 0 {
			missing++
		}
		letters = append(letters, at[n]...)
	}
	if len(open) == 0 {
		return w.nothing()
	}
	if w.l.Keep != nil && len(letters) > 0 {
		if err := w.l.Keep(letters); err != nil {
			return err
		}
	}
	var err error
	if w.result.Released, err = w.giveUp(ctx, open); err != nil {
		return err
	}
	w.drops = w.whole
	w.result.Dropped, w.result.Missing = w.result.Dropped+len(open), w.result.Missing+missing
	if err = w.settle(letters); err != nil {
		w.result.Undecided = remember(w.result.Undecided, letters...)
	}
	return err
}

// firstMissing returns the positions whose dead letters are not in the dead-letter queue, those before the first that
// was found, or all if there are none before it. Those that may have been replaced are missing too. Positions that came
// during the replay are left out. Else it would give up all new messages of a lane whose dead letters do not arrive.
func (w *laneWork) firstMissing() []int64 {
	if w.until.Since != w.state.Since { // the lane was released meanwhile
		return nil
	}
	missing := slices.Sorted(slices.Values(slices.Concat(w.plan.Missing, w.plan.Replaced)))
	missing = slices.DeleteFunc(missing, func(n int64) bool { return n > w.until.Number })
	for _, p := range w.plan.Found {
		if w.state.IsOpen(p.Position) { // at another one, it is a double
			if n, _ := slices.BinarySearch(missing, p.Position.Number); n > 0 {
				return missing[:n]
			}
			break
		}
	}
	return missing
}

// dropReplaced gives up the positions whose messages have later ones, and reports whether there were any.
func (w *laneWork) dropReplaced(ctx context.Context) (found bool, err error) {
	if !w.isReplaced() {
		return false, nil
	}
	_, err = w.giveUp(ctx, w.plan.Replaced)
	return true, err
}

func (w *laneWork) giveUp(ctx context.Context, numbers []int64) (released bool, err error) {
	positions := make([]counter.Position, 0, len(numbers))
	for _, n := range numbers {
		positions = append(positions, counter.Position{Since: w.state.Since, Number: n})
	}
	return w.l.Store.DropPositions(ctx, w.vhost, w.l.Queue, w.l.Name, positions)
}
