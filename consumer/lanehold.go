package consumer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/fingerprint"
	"github.com/strikesmq/strikes/internal/pause"
	"github.com/strikesmq/strikes/internal/queueinfo"
)

// PositionHeader is the header for the position of a replayed message in its lane, a string. `strikes lane replay` sets it.
// See Consumer.HoldLanes.
const PositionHeader = queueinfo.PositionHeader

// LaneKeeper is a Counter that keeps which lanes are blocked. *counter.Counter and *counter.Memory are LaneKeepers.
type LaneKeeper interface {
	OwnLanes(ctx context.Context, vhost, queue, before, owner string) (counter.OwnedLanes, error)
	StepLane(ctx context.Context, s counter.LaneStep) (counter.LaneReply, error)
	NextBlocked(ctx context.Context, vhost, queue string, after counter.BlockedPage) (counter.BlockedPage, error)
	BlockedLanes(ctx context.Context, vhost, queue string) (int, error)
}

// unknownLanes is logged by a session that finds no owner of the lanes. No dead letter tells a new store from one that
// lost its data.
const unknownLanes = "the store knows nothing of the lanes of this queue: it is new, or it has lost its data, and " +
	"then messages of a lane " +
	"overtake its dead letters; strikes status shows whether there are any"

const (
	// laneRenewal is how often what the store keeps of blocked lanes is renewed.
	laneRenewal = time.Hour
	// laneRetry is the pause after a page of blocked lanes could not be read.
	laneRetry = time.Second
)

// holds is a session's knowledge of the blocked lanes of its queue. A nil *holds blocks none.
//
// The broker settles nothing for a session once another has received a delivery. So a session that owns the lanes
// after its first delivery finds every lane with a dead letter in the store, and later dead letters are its own. It
// reads the blocked lanes in the background. Until it has read them all, it asks the store about each lane that it
// has not seen; then it asks about blocked lanes only.
type holds struct {
	store        LaneKeeper
	vhost, queue string
	owner        string
	log          *slog.Logger
	numbers      atomic.Int64

	turn  chan struct{} // held by the one that asks; has room for one
	owned chan struct{} // closed once the session owns the lanes

	mu    sync.Mutex
	known map[string]bool // by hash: whether a lane is blocked. One that is missing is not, if all is read
	read  bool            // all blocked lanes
}

func newHolds(s *session, store LaneKeeper) *holds {
	return &holds{
		store: store, vhost: s.vhost, queue: s.Queue, owner: token(tokens.Add(1)).String(), log: s.Logger,
		turn: make(chan struct{}, 1), owned: make(chan struct{}), known: map[string]bool{},
	}
}

// isFree reports whether a lane is known not to be blocked.
func (h *holds) isFree(lane string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.read && len(h.known) == 0 { // spares the hash
		return true
	}
	blocked, known := h.known[counter.LaneHash(lane)]
	return known && !blocked || !known && h.read
}

// note notes whether a lane is blocked, and reports whether this is new.
func (h *holds) note(lane string, blocked bool) (changed bool) {
	hash := counter.LaneHash(lane)
	h.mu.Lock()
	defer h.mu.Unlock()
	changed = h.known[hash] != blocked
	if h.known[hash] = blocked; !blocked && h.read {
		delete(h.known, hash)
	}
	return changed
}

// add notes a page of blocked lanes. A lane that a step of this session has released since stays free.
func (h *holds) add(page counter.BlockedPage) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, hash := range page.Lanes {
		if _, known := h.known[hash]; !known {
			h.known[hash] = true
		}
	}
}

// finishRead notes that all blocked lanes are known.
func (h *holds) finishRead() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.read = true
	maps.DeleteFunc(h.known, func(_ string, blocked bool) bool { return !blocked })
}

func (h *holds) isOwned() bool {
	select {
	case <-h.owned:
		return true
	default:
		return false
	}
}

// own makes the session the owner of the lanes, once. Between the two requests it asks the broker whether it still has
// the queue: a session that has lost it finds out, or finds that the next one owns the lanes.
func (h *holds) own(ctx context.Context, alive func(context.Context) error) error {
	if h.isOwned() {
		return nil
	}
	select {
	case h.turn <- struct{}{}:
		defer func() { <-h.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if h.isOwned() {
		return nil
	}
	before, err := h.ask(ctx, "", "")
	if err != nil {
		return err
	}
	if err := alive(ctx); err != nil {
		return err
	}
	now, err := h.ask(ctx, before.Owner, h.owner)
	if err != nil {
		return err
	}
	if now.Owner != h.owner {
		return errLaneUnowned
	}
	if before.Owner == "" {
		h.log.Warn(unknownLanes, "queue", h.queue)
	}
	if now.Blocked == 0 {
		h.finishRead()
	}
	close(h.owned)
	return nil
}

func (h *holds) ask(ctx context.Context, before, owner string) (lanes counter.OwnedLanes, err error) {
	err = sendOnce(ctx, stepTimeout, func(ctx context.Context) (err error) {
		lanes, err = h.store.OwnLanes(ctx, h.vhost, h.queue, before, owner)
		return err
	})
	return lanes, err
}

// keep reads the blocked lanes once the session owns them, and again every hour, which keeps the store from
// forgetting them.
func (h *holds) keep(ctx context.Context) {
	select {
	case <-h.owned:
	case <-ctx.Done():
		return
	}
	for {
		wait := laneRenewal
		if err := h.readAll(ctx); err != nil {
			wait = laneRetry
		}
		if !pause.For(ctx, wait) {
			return
		}
	}
}

func (h *holds) readAll(ctx context.Context) error {
	for page := (counter.BlockedPage{}); !page.Last; {
		err := sendOnce(ctx, stepTimeout, func(ctx context.Context) (err error) {
			page, err = h.store.NextBlocked(ctx, h.vhost, h.queue, page)
			return err
		})
		if err != nil {
			return err
		}
		h.add(page)
	}
	h.finishRead()
	return nil
}

// keepHolds reads blocked lanes in the background. The channel is closed when the reading has ended, after the end of
// ctx.
func (s *session) keepHolds(ctx context.Context) <-chan struct{} {
	done := make(chan struct{})
	if s.holds == nil {
		close(done)
		return done
	}
	go func() { defer close(done); s.holds.keep(ctx) }()
	return done
}

// inLane is the position of a delivery in its lane.
type inLane struct {
	carried    counter.Position // by the message
	position   counter.Position // the same, if the store knows it
	entered    bool             // it may run
	blocked    bool             // it may be dead-lettered
	superseded bool             // its position is not open any more
}

// enterLane asks whether a message may run, where its lane may be blocked. It returns stepRun if it may.
func (s *session) enterLane(ctx context.Context, d *delivery) step {
	if s.holds == nil || d.entered {
		return stepRun
	}
	if instead := s.insist(ctx, d, stepStart, func() error { return s.holds.own(ctx, s.alive) }); instead != 0 {
		return instead
	}
	if d.carried == (counter.Position{}) && s.holds.isFree(d.lane) {
		d.entered = true
		return stepRun
	}
	next := s.stepLane(ctx, d, counter.LaneEnter)
	if _, died := d.ours.NewestDeath(); !died || !d.superseded {
		return next
	}
	// It has died here since it got its position, and another tool has moved it back: it was not handled in that position.
	*d.inLane = inLane{}
	return s.enterLane(ctx, d)
}

// alive asks the broker whether the session still has the queue.
func (s *session) alive(ctx context.Context) error {
	_, err := await(ctx, stepTimeout, func() (none struct{}, err error) { return none, s.link.alive() }, func(struct{}) {})
	return cmp.Or(err, ctx.Err())
}

// passLane makes sure that the store knows of a dead letter before its nack, and of a replayed message's success before
// its ack.
func (s *session) passLane(ctx context.Context, d *delivery, next step) step {
	switch {
	case s.holds == nil || d.blocked || d.superseded:
	case next == stepDeadLetter:
		if next = s.stepLane(ctx, d, counter.LaneBlock); next == stepDeadLetter {
			<-s.acks.Sent() // else a message before it could return, and find its position taken
		}
		return next
	case next == stepAck && d.position != (counter.Position{}):
		return s.stepLane(ctx, d, counter.LaneLeave)
	}
	return next
}

// stepLane sends a step, and returns what becomes of the delivery then.
func (s *session) stepLane(ctx context.Context, d *delivery, act counter.LaneAct) step {
	request := counter.LaneStep{
		Message: d.message, Lane: d.lane, Act: act, Owner: s.holds.owner, Number: s.holds.numbers.Add(1), Position: d.carried,
		Redelivered: d.Redelivered,
	}
	if request.ID == "" {
		request.ID = fingerprint.Of(d.MessageId, d.CorrelationId, d.Type, d.Body)
	}
	var reply counter.LaneReply
	send := func(ctx context.Context) (err error) {
		reply, err = s.holds.store.StepLane(ctx, request)
		return err
	}
	if instead := s.insist(ctx, d, stepStart, func() error { return sendOnce(ctx, stepTimeout, send) }); instead != 0 {
		return instead
	}
	s.noteLane(d, reply)
	return s.decidedLane(d, act, reply)
}

// decidedLane returns the step for the store's reply to a step of a lane.
func (s *session) decidedLane(d *delivery, act counter.LaneAct, reply counter.LaneReply) step {
	next := decideLane(act, reply.Code)
	d.position = reply.Position
	switch {
	case next == stepLeave:
		d.err = fmt.Errorf("%w: queue %q, lane %q", laneErrors[reply.Code], s.Queue, d.lane)
	case act != counter.LaneEnter:
	case next == stepRun:
		d.entered = true
	case next == stepAck:
		d.superseded = true
	default:
		d.cause, d.failure, d.blocked = counter.CauseBlocked, errLaneBlocked, true
	}
	return next
}

func (s *session) noteLane(d *delivery, reply counter.LaneReply) {
	switch reply.Code {
	case counter.LaneFree:
		if s.holds.note(d.lane, false) {
			s.Logger.Info("the lane is released", "queue", s.Queue, "lane", d.lane)
		}
	case counter.LaneBlocked, counter.LaneRun:
		if s.holds.note(d.lane, true) {
			s.Logger.Warn("the lane is blocked: its later messages are dead-lettered without an attempt until this one is "+
				"handled or dropped; see strikes lane list",
				"queue", s.Queue, "lane", d.lane, "id", d.message.ID)
		}
	default:
	}
}

var laneErrors = map[counter.LaneCode]error{counter.LaneUnowned: errLaneUnowned, counter.LaneUnknown: errLaneUnknown}

var (
	errLaneBlocked = errors.New("an earlier message blocks the lane")
	errLaneUnowned = errors.New("consumer: another session consumes the queue, or an operator changed the lane meanwhile")
	errLaneUnknown = errors.New("consumer: the store has lost its memory of blocked lanes: dead letters of a lane may be " +
		"overtaken; replay them before its new messages")
)
