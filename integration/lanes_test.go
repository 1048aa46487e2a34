package integration

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/deadletter"
	"github.com/strikesmq/strikes/internal/proctest"
	"github.com/strikesmq/strikes/topology"
)

var (
	lanesMessages = flag.Int("lanes.messages", 1200, "messages of each case of TestHoldLanes; make lanes has 20000")
	lanesLanes    = flag.Int("lanes.lanes", 20, "lanes of each case of TestHoldLanes; make lanes has 100")
	lanesCuts     = flag.Int("lanes.cuts", 10, "connections that are cut in each case of TestHoldLanes; make lanes has 60")
)

// TestHoldLanes runs three ordered consumers whose dead letters hold their lanes. One message in a hundred fails, some on and on.
// Connections are cut, and two operators replay lanes, and drop what fails on and on. In each lane what is handled must be what
// was published, in its order, without what was dropped.
func TestHoldLanes(t *testing.T) {
	for _, typ := range queueTypes {
		t.Run(string(typ), func(t *testing.T) {
			queue := declaredAs(t, topology.Spec{Type: typ, SingleActiveConsumer: true})
			h := newHeld(*lanesMessages, *lanesLanes)
			counts := counters(t)
			c := consumer.Consumer{
				Queue: queue, Ordered: true, HoldLanes: true, Counter: counts, Lane: laneOf, Concurrency: 16, Prefetch: 100, MaxRetries: 1,
				Backoff: func(int) time.Duration { return time.Millisecond }, Observer: observer(h.observe),
			}
			dialers := h.start(t, c, 3)
			stop := h.operate(t, queue, counts)
			for part := range 10 { // so that new messages arrive while lanes are held
				from, to := part*h.n/10, (part+1)*h.n/10
				publishBodies(t, queue, from, to, func(i int) string { return fmt.Sprint(i, " ", i%h.lanes) })
				h.reach(t, from)
				for range *lanesCuts / 10 {
					dialers[rand.IntN(len(dialers))].cut()
				}
			}
			h.reach(t, h.n)
			proctest.Eventually(t, time.Minute, "no lane is held", func() bool {
				held, err := counts.Admin().Lanes(t.Context(), "/", queue)
				return err == nil && len(held) == 0
			})
			stop()
			h.report(t)
		})
	}
}

// held is what becomes of messages 0 to n-1.
type held struct {
	n, lanes int

	mu       sync.Mutex
	over     []bool // handled or dropped
	left     int
	first    []int // of each lane: the first that is not over
	runs     []int
	sequence [][]int // of each lane: what was handled, once each
	dropped  map[int]bool
	early    []string
	parked   int
	replays  int
	passes   int
	released int
}

func newHeld(n, lanes int) *held {
	h := &held{n: n, lanes: lanes, over: make([]bool, n), left: n, first: make([]int, lanes), runs: make([]int, n), sequence: make([][]int, lanes), dropped: map[int]bool{}}
	for lane := range h.first {
		h.first[lane] = lane
	}
	return h
}

// failing is how many attempts at message i fail: of two attempts, and two more for each replay.
func failing(i int) int {
	if i%101 != 50 {
		return 0
	}
	return []int{1, 2, 3, 5, 1 << 20}[i/101%5]
}

func (h *held) start(t *testing.T, c consumer.Consumer, n int) []*cuttable {
	t.Helper()
	dialers := make([]*cuttable, n)
	for i := range dialers {
		link := &cuttable{url: brokerURL(t)}
		dialers[i] = link
		mine := c
		mine.Handler = func(ctx context.Context, d amqp.Delivery) error { return h.handle(ctx, link, d) }
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- mine.Run(ctx, link.dial) }()
		t.Cleanup(func() {
			cancel()
			if err := <-ended; err != nil && !errors.Is(err, consumer.ErrUncleanStop) {
				t.Errorf("Run: %v", err)
			}
		})
	}
	return dialers
}

func (h *held) handle(ctx context.Context, link *cuttable, d amqp.Delivery) error {
	i, err := strconv.Atoi(d.MessageId)
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if first := h.first[i%h.lanes]; first < i && !link.justCut() && ctx.Err() == nil {
		h.early = append(h.early, fmt.Sprintf("%d before %d", i, first))
	}
	if h.runs[i]++; h.runs[i] <= failing(i) {
		return errors.New("not yet")
	}
	if !h.over[i] {
		h.sequence[i%h.lanes] = append(h.sequence[i%h.lanes], i)
	}
	h.end(i)
	return nil
}

// end is called with mu.
func (h *held) end(i int) {
	if h.over[i] {
		return
	}
	h.over[i] = true
	h.left--
	for lane := i % h.lanes; h.first[lane] < h.n && h.over[h.first[lane]]; {
		h.first[lane] += h.lanes
	}
}

func (h *held) observe(e consumer.Event) {
	if e.Outcome == consumer.OutcomeDeadLetter && e.Cause == counter.CauseBehind {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.parked++
	}
}

func (h *held) reach(t *testing.T, n int) {
	t.Helper()
	proctest.Eventually(t, 5*time.Minute, fmt.Sprintf("%d messages handled or dropped", n), func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.n-h.left >= n*9/10 && (n < h.n || h.left == 0)
	})
}

// operate has two operators replay lanes until the function that it returns is called.
func (h *held) operate(t *testing.T, queue string, counts *counter.Counter) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var operators sync.WaitGroup
	for range 2 {
		operators.Go(func() {
			for ctx.Err() == nil {
				err := h.replayOne(ctx, t, queue, counts)
				switch {
				case err == nil, ctx.Err() != nil:
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

// replayOne replays a lane. It drops a message that fails again and is to fail on and on.
func (h *held) replayOne(ctx context.Context, t *testing.T, queue string, counts *counter.Counter) error {
	admin := counts.Admin()
	all, err := admin.Lanes(ctx, "/", queue)
	if err != nil {
		return err
	}
	if len(all) == 0 {
		time.Sleep(10 * time.Millisecond)
		return nil
	}
	q, err := deadletter.Open(ctx, deadletter.Queue{Name: queue + ".dlq", Dial: dialer(t), Records: admin}, deadletter.Management{URL: managementURL(t)})
	if err != nil {
		return err
	}
	lane := deadletter.Lane{Queue: queue, Name: all[rand.IntN(len(all))].Lane, Store: admin, Wait: 20 * time.Second, Passes: 50}
	result, err := q.ReplayLane(ctx, lane)
	h.mu.Lock()
	h.replays += result.Replayed
	h.passes += result.Passes
	if result.Released {
		h.released++
	}
	h.mu.Unlock()
	switch {
	case errors.Is(err, deadletter.ErrLaneFailed):
		return h.dropFirst(ctx, q, lane)
	case errors.Is(err, deadletter.ErrBusy), errors.Is(err, deadletter.ErrLaneBusy), errors.Is(err, deadletter.ErrLaneMissing), errors.Is(err, deadletter.ErrLaneWaiting):
		return nil // the other operator is at it
	}
	return err
}

func (h *held) dropFirst(ctx context.Context, q *deadletter.Queue, lane deadletter.Lane) error {
	var names []int
	lane.Keep = func(dropped []*deadletter.Message) error {
		h.mu.Lock()
		defer h.mu.Unlock()
		for _, m := range dropped {
			i, err := strconv.Atoi(m.ID)
			if err != nil || failing(i) < 1<<20 {
				return errKept
			}
			names = append(names, i)
			h.dropped[i] = true // before the lane goes on
			h.end(i)
		}
		return nil
	}
	_, err := q.DropFirst(ctx, lane)
	if errors.Is(err, errKept) || errors.Is(err, deadletter.ErrBusy) || errors.Is(err, counter.ErrNotHeld) || errors.Is(err, deadletter.ErrLaneMissing) || errors.Is(err, deadletter.ErrLaneWaiting) {
		return nil
	}
	return err
}

var errKept = errors.New("not dropped: it will succeed")

func (h *held) report(t *testing.T) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	t.Logf("%d messages in %d lanes: %d parked behind others, %d replayed in %d passes, %d dropped, %d releases; %d too early",
		h.n, h.lanes, h.parked, h.replays, h.passes, len(h.dropped), h.released, len(h.early))
	if n := len(h.early); n > 0 {
		t.Errorf("%d attempts began too early, such as %s", n, strings.Join(h.early[:min(n, 10)], ", "))
	}
	for lane, got := range h.sequence {
		var want []int
		for i := lane; i < h.n; i += h.lanes {
			if !h.dropped[i] {
				want = append(want, i)
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("lane %d: handled %v, want %v", lane, got, want)
		}
	}
	if h.parked == 0 || h.replays == 0 || h.released == 0 {
		t.Error("nothing was parked, replayed and released; that is hardly a test")
	}
}
