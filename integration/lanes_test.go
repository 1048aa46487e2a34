package integration

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/integration/internal/fleet"
	"github.com/strikesmq/strikes/integration/internal/rig"
	"github.com/strikesmq/strikes/internal/pause"
	"github.com/strikesmq/strikes/internal/poll"
	"github.com/strikesmq/strikes/internal/proctest"
	"github.com/strikesmq/strikes/internal/servers"
	"github.com/strikesmq/strikes/topology"
)

var (
	lanesMessages = flag.Int("lanes.messages", 600, "messages of each case of TestHoldLanes; make lanes has 20000")
	lanesLanes    = flag.Int("lanes.lanes", 20, "lanes of each case of TestHoldLanes; make lanes has 100")
	lanesFaults   = flag.Int("lanes.faults", 6,
		"faults of consumers and their connections in each case of TestHoldLanes; make lanes has 90")
	lanesRestarts = flag.Int("lanes.restarts", 0,
		"kills of the broker in each case of TestHoldLanes, which gets a private one; make lanes has 3")
	lanesKill  = flag.String("lanes.kill", "", "`command` that kills the RabbitMQ at AMQP_URL, for -lanes.restarts")
	lanesStart = flag.String("lanes.start", "", "`command` that starts it again")
	lanesType  = flag.String("lanes.type", "",
		"`type` of queue of the only case of TestHoldLanes: classic or quorum; empty: both")
	lanesSeed = flag.Uint64("lanes.seed", 0, "of the faults of TestHoldLanes; 0: a random one, which is printed")
)

// TestHoldLanes runs three consumer processes whose dead letters hold their lanes. One message in a hundred fails, some
// always; some kill their process. Processes are killed, stopped and frozen, their connections are cut, the broker is
// killed, and requests to the store are lost, late and doubled. Meanwhile two operators replay lanes, and drop
// messages that always fail. In each lane the handled messages must be the published ones, in their order, without
// those that were dropped. A classic queue hands dead letters over at most once, so a kill of the broker loses those on
// their way; the operators drop them too.
func TestHoldLanes(t *testing.T) {
	eachQueueOfLanes(t, *lanesLanes, func(t *testing.T, h *blockedLanes) {
		stop := h.operate(t)
		for part := range 10 { // so that new messages arrive while lanes are blocked
			from, to := part*h.n/10, (part+1)*h.n/10
			publishBodies(t, h.queue, from, to, func(i int) string { return fmt.Sprint(i, " ", i%h.lanes) })
			h.reach(t, from*9/10)
		}
		h.reach(t, h.n)
		proctest.Eventually(t, 5*time.Minute, "no lane is blocked", func() bool {
			held, _, err := h.counts.Admin().Lanes(t.Context(), "/", h.queue, math.MaxInt)
			return err == nil && len(held) == 0
		})
		stop()
		o := &h.operated
		t.Logf("%d blocked behind others, %d replayed in %d passes, %d releases", h.blocked, o.replays.Load(),
			o.passes.Load(), o.releases.Load())
		if h.blocked == 0 || o.replays.Load() == 0 || o.releases.Load() == 0 {
			t.Error("nothing was blocked, replayed or released; that is hardly a test")
		}
	})
}

// eachQueueOfLanes plays a case with each type of queue, and judges it. Without lanes the queue is one.
func eachQueueOfLanes(t *testing.T, lanes int, play func(t *testing.T, h *blockedLanes)) {
	t.Helper()
	if *lanesRestarts == 0 { // else the test names its broker in the environment
		t.Parallel()
	}
	broker := lanesBroker(t)
	for _, typ := range queueTypes {
		if *lanesType != "" && *lanesType != string(typ) {
			continue
		}
		t.Run(string(typ), func(t *testing.T) {
			if *lanesRestarts == 0 {
				t.Parallel()
			}
			seed := *lanesSeed
			if seed == 0 {
				seed = rand.Uint64N(1 << 32)
			}
			queue := declaredAs(t, topology.Spec{Type: typ, SingleActiveConsumer: true})
			// a quorum queue that is killed soon after its declaration may forget its log; not after a restart
			if *lanesRestarts > 0 {
				need(t, broker.Restart(t.Context()))
			}
			h := &blockedLanes{laneLedger: newLaneLedger(t, *lanesMessages, max(lanes, 1)), queue: queue, whole: lanes == 0,
				loses: typ == topology.Classic && *lanesRestarts > 0, seed: seed, rnd: rand.New(rand.NewPCG(seed, 0)),
				broker: broker, begun: time.Now(), management: managementURL(t)}
			h.startFleet(t, seed)
			play(t, h)
			h.readOn(t)
			t.Logf("seed %d: %d messages in %d lanes, %v: %v; %d takeovers, %d dropped, %d of them lost by the broker; "+
				"%d too early", seed, h.n, lanes, time.Since(h.begun).Round(time.Second), h.faults, h.takeovers,
				len(h.dropped), h.operated.lost.Load(), len(h.early))
			h.judge(t)
			if h.takeovers == 0 {
				t.Error("no other process took over; that is hardly a test")
			}
		})
	}
}

// blockedLanes is one case.
type blockedLanes struct {
	*laneLedger
	queue    string
	whole    bool // it has no lanes
	loses    bool // a kill of the broker loses dead letters that are on their way
	seed     uint64
	counts   *counter.Counter // reaches the store without faults
	rnd      *rand.Rand
	broker   *rig.Broker
	fleet    fleet.Fleet
	faults   map[string]int // done, by their kind
	injected int
	restarts int
	begun    time.Time
	operated laneOperations

	management string   // the URL of its API
	expected   sync.Map // the ids of the dead letters that the lanes expected at a kill of the broker
}

// lanesBroker is a broker that may be killed, if the test kills it.
func lanesBroker(t *testing.T) *rig.Broker {
	t.Helper()
	if *lanesRestarts > 0 && os.Getenv("AMQP_URL") == "" {
		r := privateBroker(t, servers.RabbitMQOptions{Management: true})
		t.Setenv("AMQP_URL", r.URL)
		t.Setenv("STRIKES_MANAGEMENT_URL", r.ManagementURL)
		return &rig.Broker{URL: r.URL, Private: r}
	}
	return &rig.Broker{URL: brokerURL(t), KillCommand: *lanesKill, StartCommand: *lanesStart}
}

// startFleet starts the consumers.
func (h *blockedLanes) startFleet(t *testing.T, seed uint64) {
	t.Helper()
	prefix := uniqueName(t, "strikes")
	h.counts, h.faults = ofPrefix(t, prefix), map[string]int{}
	store := &rig.Store{URL: redisURL(t)}
	h.fleet.Fail = func(err error) { t.Error(err) }
	t.Cleanup(h.fleet.Close)
	ctx := context.WithoutCancel(t.Context())
	for i := range 3 {
		seat, err := h.fleet.NewSeat(ctx, h.broker, store, laneStoreOdds.Treat(seed+uint64(i)))
		need(t, err)
		seat.Command = func(int) (*exec.Cmd, io.Closer, error) {
			return fleet.Command(worker{Lanes: &laneChild{Seat: i, AMQP: seat.AMQP, Redis: seat.Redis, Runs: store.URL,
				Prefix: prefix, Queue: h.queue, Whole: h.whole, Ledger: h.out.Name()}})
		}
	}
	h.fleet.Start(ctx)
}

// reach waits until n messages are handled or dropped, and injects the faults that are due meanwhile.
func (h *blockedLanes) reach(t *testing.T, n int) {
	t.Helper()
	const patience = 5 * time.Minute // without any progress
	before, since := -1, time.Now()
	for {
		done := h.readOn(t)
		if done >= n {
			return
		}
		if done != before {
			before, since = done, time.Now()
		}
		if time.Since(since) > patience {
			t.Fatalf("%d messages of %d are handled or dropped, and no other for %v: %s", done, h.n, patience, h.describe(t))
		}
		h.injectDue(t, done)
		if !pause.For(t.Context(), 20*time.Millisecond) {
			t.Fatal(t.Context().Err())
		}
	}
}

// describe names the blocked lanes, counts the messages in both queues, and tells the story of the first missing
// message of each lane and of three after it.
func (h *blockedLanes) describe(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d, %d attempts too early %v", h.seed, len(h.early), h.early)
	for _, queue := range []string{h.queue, h.queue + ".dlq"} {
		load, err := h.load(t.Context(), dialer(t), queue)
		fmt.Fprintf(&b, "; %s: %d ready, %d unacked (%v)", queue, load.Ready, load.Unacked, err)
	}
	held, _, err := h.counts.Admin().Lanes(t.Context(), "/", h.queue, math.MaxInt)
	need(t, err)
	for _, l := range held {
		state, err := h.counts.Admin().Lane(t.Context(), "/", h.queue, l.Lane)
		need(t, err)
		fmt.Fprintf(&b, "; lane %s: open %v, dead letters %v", l.Lane, state.Open, state.Dead())
	}
	for lane, i := range h.first {
		if i < h.n {
			fmt.Fprintf(&b, "; the first of lane %d is %d: %s", lane, i, strings.Join(h.said[i], ", "))
			for next := i + h.lanes; next < min(h.n, i+4*h.lanes); next += h.lanes { // how they came past it
				fmt.Fprintf(&b, "; then %d: %s", next, strings.Join(h.said[next], ", "))
			}
		}
	}
	return b.String()
}

// injectDue spreads the faults over the messages. Two in three hit the process that is active, and each does until
// another one has taken over.
func (h *blockedLanes) injectDue(t *testing.T, done int) {
	t.Helper()
	if h.restarts < *lanesRestarts && done >= (h.restarts+1)*h.n/(*lanesRestarts+1) {
		h.restarts++
		h.killBroker(t)
	}
	if h.injected < *lanesFaults && done >= (h.injected+1)*h.n/(*lanesFaults+1) {
		fault := laneFaults[h.injected%len(laneFaults)]
		h.injected++
		seat := h.fleet.Seats[h.rnd.IntN(len(h.fleet.Seats))]
		hits := h.rnd.IntN(3) > 0
		if active, alone := h.active(); active >= 0 && (hits || alone) {
			seat = h.fleet.Seats[active]
		}
		if fault.do(t, seat) {
			h.faults[fault.name]++
		}
	}
}

// killBroker kills the broker and starts it again. Commands of operators may fail meanwhile.
func (h *blockedLanes) killBroker(t *testing.T) {
	t.Helper()
	h.operated.brokerAway.Add(1)
	defer h.operated.brokerAway.Add(1)
	ctx := context.WithoutCancel(t.Context())
	need(t, h.broker.Kill(ctx))
	need(t, h.noteExpected(ctx))
	need(t, h.broker.Start(ctx))
	need(t, poll.Until(ctx, 2*time.Minute, "the broker to answer", func() error {
		conn, err := dialer(t)(ctx)
		if err != nil {
			return err
		}
		return conn.Close()
	}))
	h.faults["broker kill"]++
}

// TestHoldQueue is TestHoldLanes without lanes: an exhausted message pauses its queue. Meanwhile an operator
// limits and resets messages that will succeed, and skips those that always fail. The handled messages must be the
// published ones, in their order, without the skipped ones.
func TestHoldQueue(t *testing.T) {
	eachQueueOfLanes(t, 0, func(t *testing.T, h *blockedLanes) {
		d := h.decide(t)
		publishBodies(t, h.queue, 0, h.n, func(i int) string { return fmt.Sprint(i, " ") })
		h.reach(t, h.n)
		d.stop()
		t.Logf("the queue was held %d times: %d limits, %d resets", d.holds.Load(), d.limits.Load(), d.resets.Load())
		if d.limits.Load() == 0 || d.resets.Load() == 0 || len(h.dropped) == 0 {
			t.Error("nothing was limited, reset or skipped; that is hardly a test")
		}
		h.wantSkippedDead(t)
	})
}

// wantSkippedDead checks that the skipped messages are dead-lettered, and no others. A classic queue may return a
// message although its dead letter survived a kill of the broker, so there may be two.
func (h *blockedLanes) wantSkippedDead(t *testing.T) {
	t.Helper()
	dead := map[int]bool{}
	for _, d := range getAll(t, h.queue+".dlq") {
		i, err := strconv.Atoi(d.MessageId)
		need(t, err)
		dead[i] = true
	}
	if !maps.Equal(dead, h.dropped) {
		t.Errorf("dead letters %v, want those that were skipped, %v", dead, h.dropped)
	}
}

// queueDecisions count the decisions of an operator about messages that paused their queue.
type queueDecisions struct {
	holds, limits, resets atomic.Int64
	stop                  func()
}

// decide has an operator decide about each message that pauses the queue.
func (h *blockedLanes) decide(t *testing.T) *queueDecisions {
	t.Helper()
	var d queueDecisions
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for pause.For(ctx, 10*time.Millisecond) {
			err := h.decideOnce(ctx, &d)
			if err != nil && ctx.Err() == nil && !errors.As(err, new(*counter.StoreError)) &&
				!errors.Is(err, counter.ErrNoRecord) {
				t.Errorf("the operator: %v", err)
				return
			}
		}
	}()
	d.stop = func() { cancel(); <-done }
	t.Cleanup(d.stop)
	return &d
}

func (h *blockedLanes) decideOnce(ctx context.Context, d *queueDecisions) error {
	admin := h.counts.Admin()
	now, err := admin.State(ctx, "/", h.queue)
	pause := now.Paused
	if pause == nil || pause.Holding == nil || err != nil {
		return err
	}
	held := pause.Holding
	i, err := strconv.Atoi(held.ID)
	if err != nil {
		return err
	}
	turn := d.holds.Add(1)
	note := counter.Note{By: "test", Why: "it is repaired"}
	times, _ := failing(i)
	switch {
	case times >= alwaysFails:
		if _, err := fmt.Fprintf(h.out, "drop - %s\n", held.ID); err != nil { // before the queue goes on
			return err
		}
		return errOf(admin.Skip(ctx, held.Message, note))
	case turn%2 == 0:
		d.resets.Add(1)
		return admin.Reset(ctx, held.Message, note)
	}
	d.limits.Add(1)
	all, err := admin.Get(ctx, "/", h.queue, held.ID)
	for _, r := range all {
		if r.Message == held.Message {
			return admin.LimitMessage(ctx, held.Message, r.Counted()+1, note)
		}
	}
	return err
}
