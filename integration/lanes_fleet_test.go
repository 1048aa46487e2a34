package integration

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/redis/go-redis/v9"

	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/deadletter"
	"github.com/strikesmq/strikes/integration/internal/fleet"
	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/internal/pause"
	"github.com/strikesmq/strikes/internal/proxy"
)

// laneChild is the configuration of a consumer process of TestHoldLanes and TestHoldQueue.
type laneChild struct {
	Seat          int
	AMQP, Redis   string // through proxies
	Runs          string // the store without a proxy: counts the attempts at each message
	Prefix, Queue string
	Whole         bool // the queue has no lanes
	Ledger        string
}

const alwaysFails = 1 << 20

// failing is how many attempts at message i fail: of two attempts, and two more for each replay. The first of those
// that kill ends its process.
func failing(i int) (times int, kills bool) {
	if i%101 != 50 {
		return 0, false
	}
	kind := i / 101 % 6
	return []int{1, 2, 3, 5, alwaysFails, 1}[kind], kind == 5
}

func (c laneChild) run(ctx context.Context) (err error) {
	ledger, err := os.OpenFile(c.Ledger, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	counts, err := counter.Dial(c.Redis, &counter.Options{Prefix: c.Prefix})
	if err != nil {
		return err
	}
	opts, err := redis.ParseURL(c.Runs)
	if err != nil {
		return err
	}
	runs := redis.NewClient(opts)
	write := func(what, id string) error {
		return errOf(fmt.Fprintf(ledger, "%s %d %s\n", what, c.Seat, id))
	}
	consume := consumer.Consumer{
		Queue: c.Queue, Ordered: true, HoldLanes: true, Counter: counts, Lane: laneOf, Concurrency: 16, Prefetch: 100,
		MaxRetries: 1,
		Backoff:    func(int) time.Duration { return time.Millisecond }, DrainTimeout: 5 * time.Second,
		Observer: observer(func(e consumer.Event) {
			if e.Outcome == consumer.OutcomeDeadLetter && e.Cause == counter.CauseBlocked {
				_ = write("behind", e.ID)
				return
			}
			if e.ID != "" {
				_ = write(string(e.Outcome), e.ID)
			}
		}),
		Handler: func(ctx context.Context, d amqp.Delivery) error {
			i, err := strconv.Atoi(d.MessageId)
			if err != nil {
				return err
			}
			if err := write("begin", d.MessageId); err != nil {
				return err
			}
			n, err := runs.Incr(ctx, c.Prefix+".runs."+d.MessageId).Result()
			if err != nil {
				return fmt.Errorf("counting the attempt: %w", err)
			}
			times, kills := failing(i)
			switch {
			case n <= int64(times) && kills:
				return syscall.Kill(os.Getpid(), syscall.SIGKILL)
			case n <= int64(times):
				return errors.New("not yet")
			}
			return write("done", d.MessageId)
		},
	}
	if c.Whole {
		consume.Lane, consume.Concurrency, consume.Prefetch = nil, 0, 10
	}
	return consume.Run(ctx, consumer.Dialer(c.AMQP, amqp.Config{Heartbeat: time.Second}))
}

// laneStoreOdds are for the requests that consumers send to the store.
var laneStoreOdds = proxy.Odds{Lose: .01, Late: .01, Reset: .005, Double: .1, LateFrom: 100 * time.Millisecond,
	LateTo: 600 * time.Millisecond}

// laneFaults report whether they found their target.
var laneFaults = []struct {
	name string
	do   func(t *testing.T, s *fleet.Seat) bool
}{
	{"SIGKILL", func(_ *testing.T, s *fleet.Seat) bool { return s.Signal(syscall.SIGKILL) == nil }},
	{"cut connection", func(_ *testing.T, s *fleet.Seat) bool { s.Broker.Cut(); return true }},
	{"SIGTERM", func(_ *testing.T, s *fleet.Seat) bool { return s.Signal(syscall.SIGTERM) == nil }},
	{"SIGKILL", func(_ *testing.T, s *fleet.Seat) bool { return s.Signal(syscall.SIGKILL) == nil }},
	{"cut store", func(_ *testing.T, s *fleet.Seat) bool { s.Store.Cut(); return true }},
	{"freeze", func(t *testing.T, s *fleet.Seat) bool {
		if s.Signal(syscall.SIGSTOP) != nil {
			return false
		}
		// until the broker has missed its heartbeats, and another consumer has taken over
		pause.For(t.Context(), 4*time.Second)
		return s.Signal(syscall.SIGCONT) == nil
	}},
}

// laneLedger is a file in which consumer processes and operators note their acts on messages 0 to n-1, a line each:
//
//	begin SEAT N    an attempt begins
//	done SEAT N     it has succeeded
//	behind SEAT N   the message is dead-lettered without an attempt
//	drop - N        an operator is about to drop it
//	event SEAT N    another event of the consumer, by its name
//
// Each line is one write(2) to the end of the file, so the order of the lines is that of the events.
type laneLedger struct {
	out, in  *os.File // apart: a write to the end would move the position of the next read
	n, lanes int

	mu        sync.Mutex
	rest      []byte // of the last line, which is not whole yet
	over      []bool // handled or dropped
	ended     int    // of over
	first     []int  // of each lane: the first that is not over
	handled   []bool
	sequence  [][]int // of each lane: the handled messages, once each
	dropped   map[int]bool
	said      [][]string // of each message: its lines, without its number
	early     []string
	blocked   int
	seat      int // of the last attempt; -1: none
	takeovers int
}

func newLaneLedger(t *testing.T, n, lanes int) *laneLedger {
	t.Helper()
	out, err := os.OpenFile(filepath.Join(t.TempDir(), "ledger"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	need(t, err)
	t.Cleanup(func() { need(t, out.Close()) })
	in, err := os.Open(out.Name())
	need(t, err)
	t.Cleanup(func() { need(t, in.Close()) })
	l := &laneLedger{out: out, in: in, n: n, lanes: lanes, over: make([]bool, n), said: make([][]string, n),
		first: make([]int, lanes), handled: make([]bool, n), sequence: make([][]int, lanes), dropped: map[int]bool{},
		seat: -1}
	for lane := range l.first {
		l.first[lane] = lane
	}
	return l
}

// readOn reads the lines that were written since, and returns how many messages are handled or dropped.
func (l *laneLedger) readOn(t *testing.T) (over int) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	more, err := io.ReadAll(l.in)
	need(t, err)
	l.rest = append(l.rest, more...)
	for {
		line, rest, whole := bytes.Cut(l.rest, []byte("\n"))
		if !whole {
			return l.ended
		}
		l.rest = rest
		var what string
		var seat, i int
		if _, err := fmt.Sscan(strings.Replace(string(line), " - ", " 0 ", 1), &what, &seat, &i); err != nil || i < 0 ||
			i >= l.n {
			t.Fatalf("the ledger says %q: %v", line, err)
		}
		l.note(what, seat, i)
	}
}

// note is called with mu.
func (l *laneLedger) note(what string, seat, i int) {
	lane := i % l.lanes
	l.said[i] = append(l.said[i], fmt.Sprintf("%s of %d", what, seat))
	switch what {
	case "begin":
		if l.seat >= 0 && l.seat != seat {
			l.takeovers++
		}
		l.seat = seat
		if first := l.first[lane]; first < i {
			l.early = append(l.early, fmt.Sprintf("%d before %d", i, first))
		}
	case "behind":
		l.blocked++
	case "done":
		if !l.handled[i] {
			l.handled[i] = true
			l.sequence[lane] = append(l.sequence[lane], i)
		}
		l.end(i)
	case "drop":
		l.dropped[i] = true
		l.end(i)
	}
}

func (l *laneLedger) end(i int) {
	if l.over[i] {
		return
	}
	l.over[i] = true
	l.ended++
	for lane := i % l.lanes; l.first[lane] < l.n && l.over[l.first[lane]]; {
		l.first[lane] += l.lanes
	}
}

// active is the seat of the last attempt; -1: there was none. alone: there was none of another seat.
func (l *laneLedger) active() (seat int, alone bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.seat, l.takeovers == 0
}

// judge checks that no attempt was too early, and that exactly the messages that were not dropped were handled, in
// their order.
func (l *laneLedger) judge(t *testing.T) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := len(l.early); n > 0 {
		t.Errorf("%d attempts began too early, such as %s", n, strings.Join(l.early[:min(n, 10)], ", "))
	}
	for lane, got := range l.sequence {
		var want []int
		for i := lane; i < l.n; i += l.lanes {
			if !l.dropped[i] {
				want = append(want, i)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("lane %d: handled %v, want %v", lane, got, want)
		}
	}
}

// laneOperations count the acts of the operators of a blockedLanes.
type laneOperations struct {
	replays, passes, releases atomic.Int64
	brokerAway                atomic.Int64 // odd while the broker is away
	lost                      atomic.Int64 // dead letters that kills of the broker lost
	replaying                 sync.RWMutex // held by an operator who replays
}

// operate has two operators replay lanes until the function that it returns is called.
func (h *blockedLanes) operate(t *testing.T) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var operators sync.WaitGroup
	for range 2 {
		operators.Go(func() {
			for ctx.Err() == nil {
				away := h.operated.brokerAway.Load()
				err := h.replayOne(ctx, t)
				switch {
				case err == nil, ctx.Err() != nil:
				case away%2 == 1, away != h.operated.brokerAway.Load():
					pause.For(ctx, 100*time.Millisecond)
				case errors.As(err, new(*counter.StoreError)), errors.Is(err, deadletter.ErrInterrupted): // of a busy machine
					t.Logf("an operator begins again: %v", err)
				default:
					t.Errorf("an operator: %v", err)
					return
				}
			}
		})
	}
	stop = func() { cancel(); operators.Wait() }
	t.Cleanup(stop)
	return stop
}

// replayOne replays a lane. It drops a message that fails again and always will.
func (h *blockedLanes) replayOne(ctx context.Context, t *testing.T) error {
	t.Helper()
	admin := h.counts.Admin()
	all, _, err := admin.Lanes(ctx, "/", h.queue, math.MaxInt)
	if err != nil {
		return err
	}
	if len(all) == 0 {
		pause.For(ctx, 10*time.Millisecond)
		return nil
	}
	q, err := deadletter.Open(ctx, deadletter.Queue{Name: h.queue + ".dlq", Dial: dialer(t), Records: admin},
		deadletter.Management{URL: managementURL(t)})
	if err != nil {
		return err
	}
	lane := deadletter.Lane{Queue: h.queue, Name: all[rand.IntN(len(all))].Lane, Store: admin, Wait: time.Minute,
		Passes: 50}
	if err = h.replayLane(ctx, q, lane); h.loses && errors.Is(err, deadletter.ErrLaneMissing) {
		err = h.giveUpLost(ctx, q)
	}
	for _, expected := range []error{ // the other operator is at it
		deadletter.ErrBusy, deadletter.ErrLaneBusy, deadletter.ErrLaneMissing, deadletter.ErrLaneWaiting,
		counter.ErrNotBlocked,
		errKept,
	} {
		if errors.Is(err, expected) {
			return nil
		}
	}
	return err
}

func (h *blockedLanes) replayLane(ctx context.Context, q *deadletter.Queue, lane deadletter.Lane) error {
	h.operated.replaying.RLock()
	defer h.operated.replaying.RUnlock()
	result, err := q.ReplayLane(ctx, lane)
	h.operated.replays.Add(int64(result.Replayed))
	h.operated.passes.Add(int64(result.Passes))
	if result.Released {
		h.operated.releases.Add(1)
	}
	if errors.Is(err, deadletter.ErrLaneFailed) {
		err = h.dropFirst(ctx, q, lane)
	}
	return err
}

// states returns the lanes that are blocked.
func (h *blockedLanes) states(ctx context.Context) (map[string]*counter.LaneState, error) {
	admin, states := h.counts.Admin(), map[string]*counter.LaneState{}
	all, _, err := admin.Lanes(ctx, "/", h.queue, math.MaxInt)
	for _, l := range all {
		state, err := admin.Lane(ctx, "/", h.queue, l.Lane)
		switch {
		case err == nil:
			states[l.Lane] = state
		case !errors.Is(err, counter.ErrNotBlocked):
			return nil, err
		}
	}
	return states, err
}

// load is that of a queue a few seconds ago.
func (h *blockedLanes) load(ctx context.Context, dial func(context.Context) (*amqp.Connection, error), queue string) (
	broker.Load, error) {
	conn, err := dial(ctx)
	if err != nil {
		return broker.Load{}, err
	}
	defer conn.Close()
	api, err := broker.NewAPI(h.management, nil)
	if err != nil {
		return broker.Load{}, err
	}
	return api.Load(ctx, conn, queue)
}

// noteExpected is called while the broker is away. It may have lost the dead letters that the lanes expect then, and no
// others.
func (h *blockedLanes) noteExpected(ctx context.Context) error {
	states, err := h.states(ctx)
	for _, state := range states {
		for _, id := range state.Dead() {
			h.expected.Store(id, true)
		}
	}
	return err
}

// giveUpLost gives up the messages whose dead letters a kill of the broker lost: those that the lanes expected at the
// kill and 15 s before now, and that are not in the dead-letter queue. A message whose nack was lost too is back in the
// work queue, so that must be empty. No replay runs meanwhile.
func (h *blockedLanes) giveUpLost(ctx context.Context, q *deadletter.Queue) error {
	h.operated.replaying.Lock()
	defer h.operated.replaying.Unlock()
	states, err := h.states(ctx)
	if err != nil {
		return err
	}
	if !pause.For(ctx, 15*time.Second) {
		return ctx.Err()
	}
	if load, err := h.load(ctx, q.Dial, h.queue); err != nil || load.Ready+load.Unacked > 0 {
		return err
	}
	found := map[string]bool{}
	for m, err := range q.Browse(ctx, deadletter.Filter{}) {
		if err != nil {
			return err
		}
		found[m.ID] = true
	}
	for lane, state := range states {
		var lost []counter.Position
		for number, id := range state.Dead() {
			p := counter.Position{Since: state.Since, Number: number}
			if _, expected := h.expected.Load(id); !expected || found[id] || !state.IsOpen(p) {
				continue
			}
			if _, err := fmt.Fprintf(h.out, "drop - %s\n", id); err != nil { // before the lane goes on
				return err
			}
			lost = append(lost, p)
		}
		if len(lost) > 0 {
			h.operated.lost.Add(int64(len(lost)))
			if _, err := h.counts.Admin().DropPositions(ctx, "/", h.queue, lane, lost); err != nil {
				return err
			}
		}
	}
	return nil
}

var errKept = errors.New("not dropped: it will succeed")

func (h *blockedLanes) dropFirst(ctx context.Context, q *deadletter.Queue, lane deadletter.Lane) error {
	lane.Keep = func(dropped []*deadletter.Message) error {
		for _, m := range dropped {
			i, err := strconv.Atoi(m.ID)
			if times, _ := failing(i); err != nil || times < alwaysFails {
				return errKept
			}
		}
		for _, m := range dropped { // before the lane goes on
			if _, err := fmt.Fprintf(h.out, "drop - %s\n", m.ID); err != nil {
				return err
			}
		}
		return nil
	}
	return errOf(q.DropFirst(ctx, lane))
}
