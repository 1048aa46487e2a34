package counter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/strikesmq/strikes/internal/printable"
	"github.com/strikesmq/strikes/internal/setting"
)

// laneTTL is how long what is known of a lane outlives the last write or renewal. Consumers renew blocked lanes once an
// hour.
const laneTTL = 30 * 24 * time.Hour

// Position is the position of a message in its lane. A message gets it when it is first blocked, and keeps it through
// replays. The zero value is that of a message which was never blocked.
type Position struct {
	Since  int64 // when the store began to number the lane, in µs since 1970: a store that lost its memory begins again
	Number int64 // from 1
}

// String is the form of a position in a message's header.
func (p Position) String() string { return fmt.Sprintf("%d.%d", p.Since, p.Number) }

// ParsePosition reads what String wrote. It returns the zero value for any other text.
func ParsePosition(s string) Position {
	since, number, _ := strings.Cut(s, ".")
	p := Position{}
	var errSince, errNumber error
	p.Since, errSince = strconv.ParseInt(since, 10, 64)
	p.Number, errNumber = strconv.ParseInt(number, 10, 64)
	if errSince != nil || errNumber != nil || p.Since < 1 || p.Number < 1 || p.Since > MaxFence || p.Number > MaxFence {
		return Position{}
	}
	return p
}

// LaneAct is what a consumer tells the store about a message of a lane.
type LaneAct int

// The acts.
const (
	LaneEnter LaneAct = iota + 1 // may it run? If not, it is blocked
	LaneBlock                    // it is about to be dead-lettered, which blocks its lane
	LaneLeave                    // it succeeded, and is about to be acked; only of a message with a Position
)

func (a LaneAct) String() string {
	return map[LaneAct]string{LaneEnter: "enter", LaneBlock: "block", LaneLeave: "leave"}[a]
}

// LaneStep is one step of a message through its lane. A step is safe to repeat with the same Number until a later one
// of the lane was sent.
type LaneStep struct {
	Message     // the ID of one without an id is its fingerprint
	Lane        string
	Act         LaneAct
	Owner       string   // given to OwnLanes
	Number      int64    // of the step, from 1: greater than those of the owner's earlier steps in the lane
	Position    Position // that the message carries
	Redelivered bool     // the broker has delivered the message before
}

func (s LaneStep) validate() error {
	switch {
	case s.Act < LaneEnter || s.Act > LaneLeave:
		return fmt.Errorf("counter: lane: %w", setting.New("Act", int(s.Act), "LaneEnter, LaneBlock or LaneLeave"))
	case s.Number < 1:
		return fmt.Errorf("counter: lane: %w", setting.New("Number", s.Number, "1 at least"))
	}
	return checkOwner(s.Queue, s.Owner)
}

func checkOwner(queue, owner string) error {
	return checkAttempt(Attempt{Message: Message{Queue: queue, ID: "-"}, Token: owner})
}

// LaneCode is the store's reply to a LaneStep.
type LaneCode int

// The reply.
const (
	LaneFree LaneCode = iota + 1 // the lane is not blocked. LaneEnter: the message may run
	LaneRun                      // LaneEnter: the lane is blocked, and it is the turn of this message, which may run
	// LaneEnter: the message is blocked: dead-letter it. LaneBlock, LaneLeave: done; the lane is blocked
	LaneBlocked
	// the position of the message was left or dropped. LaneEnter: ack it without an attempt
	LaneSuperseded
	LaneUnowned // nothing is done: another consumer owns the lanes now. End the session
	LaneUnknown // nothing is done: the store has lost its memory of the lanes. End the session
)

var laneCodes = map[string]LaneCode{
	"FREE": LaneFree, "RUN": LaneRun, "BLOCKED": LaneBlocked, "SUPERSEDED": LaneSuperseded, "UNOWNED": LaneUnowned,
	"UNKNOWN": LaneUnknown,
}

// LaneReply is the store's reply to a LaneStep.
type LaneReply struct {
	Code     LaneCode
	Position Position // of the message, if it has one
}

// OwnedLanes says who owns the lanes of a queue.
type OwnedLanes struct {
	Owner   string // empty: no session has owned them yet
	Blocked int    // lanes
}

// BlockedPage is a page of the blocked lanes of a queue.
type BlockedPage struct {
	Lanes []string // as LaneHash names them
	Last  bool     // no other page follows
	since string   // of the last lane
}

// LaneHash is the name of a lane in a BlockedPage.
func LaneHash(lane string) string { return hashID(lane) }

// laneStore keeps lanes. Redis does it in scripts of their own, until lanes are documents of a Store too.
type laneStore interface {
	own(ctx context.Context, of Queue, before, owner string) (OwnedLanes, error)
	next(ctx context.Context, of Queue, after BlockedPage) (BlockedPage, error)
	blocked(ctx context.Context, of Queue) (int, error)
	step(ctx context.Context, s LaneStep) (LaneReply, error)
	list(ctx context.Context, of Queue, skip, most int) (lanes []BlockedLane, read int, err error)
	read(ctx context.Context, of Queue, lane string) (*LaneState, error)
	note(ctx context.Context, of Queue, lane, act string, letters []LaneLetter) error
	drop(ctx context.Context, of Queue, lane string, positions []Position) (left int, err error)
	letters(ctx context.Context, of Queue, recent time.Duration) (Blocked, error)
}

// OwnLanes makes owner the session that owns the lanes of a queue, if before owns them; an empty before means that no
// session does. The store takes only the owner's steps. OwnLanes returns the owner that the lanes have then, which
// may be another. If owner is empty, it only reads. It costs the same however many lanes are blocked.
//
// Owners must follow one another as the broker gives them the queue. So a session asks who owns the lanes, makes sure
// that it still has the queue, and then claims the lanes of that owner: a session that has lost the queue meanwhile
// fails one of the two.
func (c *Counter) OwnLanes(ctx context.Context, vhost, queue, before, owner string) (OwnedLanes, error) {
	if c.refuse != nil {
		return OwnedLanes{}, c.refuse
	}
	if err := checkOwner(queue, cmp.Or(owner, "-")); err != nil {
		return OwnedLanes{}, err
	}
	lanes, err := c.lanes.own(ctx, Queue{vhost, queue}, before, owner)
	if err != nil {
		return OwnedLanes{}, fmt.Errorf("counter: own lanes, queue %q: %w", queue, err)
	}
	return lanes, nil
}

// NextBlocked returns the page of blocked lanes after another; the zero value comes before the first. It also renews
// what the store keeps of these lanes. The pages together have each lane that is blocked from the first of them to the
// last.
func (c *Counter) NextBlocked(ctx context.Context, vhost, queue string, after BlockedPage) (BlockedPage, error) {
	if c.refuse != nil {
		return BlockedPage{}, c.refuse
	}
	next, err := c.lanes.next(ctx, Queue{vhost, queue}, after)
	if err != nil {
		return BlockedPage{}, fmt.Errorf("counter: blocked lanes, queue %q: %w", queue, err)
	}
	return next, nil
}

// BlockedLanes returns how many lanes of a queue are blocked. It costs the same however many they are.
func (c *Counter) BlockedLanes(ctx context.Context, vhost, queue string) (int, error) {
	if c.refuse != nil {
		return 0, c.refuse
	}
	return c.blockedLanes(ctx, vhost, queue)
}

func (c *client) blockedLanes(ctx context.Context, vhost, queue string) (int, error) {
	n, err := c.lanes.blocked(ctx, Queue{vhost, queue})
	if err != nil {
		return 0, fmt.Errorf("counter: lanes, queue %q: %w", queue, err)
	}
	return n, nil
}

// StepLane takes a step. After an error it may or may not be taken: repeat it with the same Number, or end the session.
func (c *Counter) StepLane(ctx context.Context, s LaneStep) (LaneReply, error) {
	if c.refuse != nil {
		return LaneReply{}, c.refuse
	}
	if err := s.validate(); err != nil {
		return LaneReply{}, err
	}
	reply, err := c.lanes.step(ctx, s)
	if err != nil {
		return LaneReply{}, fmt.Errorf("counter: lane, queue %q: %w", s.Queue, err)
	}
	return reply, nil
}

// maxLane is how much of a lane's name the store keeps, in bytes.
const maxLane = 1024

// LaneName returns the name of a lane, shortened if it is over 1 KiB: a hash of the whole replaces its end. The store
// keeps the result whole, and finds the lane only by that.
func LaneName(lane string) string {
	if len(lane) <= maxLane {
		return lane
	}
	end := "~" + hashID(lane)
	return printable.Cut(lane, maxLane-len(end)) + end
}

// ErrNotBlocked is wrapped by Lane, and by the operators' changes of a lane, if the lane is not blocked.
var ErrNotBlocked = errors.New("the lane is not blocked")
