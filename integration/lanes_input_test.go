package integration

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/redis/go-redis/v9"

	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/deadletter"
	"github.com/strikesmq/strikes/internal/inspect"
	"github.com/strikesmq/strikes/internal/servertest"
	"github.com/strikesmq/strikes/ops"
	"github.com/strikesmq/strikes/topology"
)

// laneQueue is a queue whose consumer holds lanes.
type laneQueue struct {
	name, prefix string
	counts       *counter.Counter
	lane         func(amqp.Delivery) string // if nil, laneOf
	receive      func(d amqp.Delivery)      // nil, or called by the handler

	mu      sync.Mutex
	bad     map[string]bool // ids whose attempts fail
	handled []string
	log     bytes.Buffer
}

func newLaneQueue(t *testing.T, bad ...string) *laneQueue {
	t.Helper()
	l := &laneQueue{name: declaredAs(t, topology.Spec{Type: topology.Quorum, SingleActiveConsumer: true}),
		prefix: uniqueName(t, "strikes"), bad: map[string]bool{}}
	for _, id := range bad {
		l.bad[id] = true
	}
	l.counts = ofPrefix(t, l.prefix)
	return l
}

// blockedLane returns a queue and its consumer, which has dead-lettered the n messages of a lane: the first failed, and
// blocks the others.
func blockedLane(t *testing.T, n int) *laneQueue {
	t.Helper()
	l := newLaneQueue(t, "0")
	l.publish(t, 0, n)
	l.consume(t, nil)
	l.awaitDead(t, n)
	return l
}

// publish publishes the messages of the lane named lane, whose ids are the numbers from one to before another.
func (l *laneQueue) publish(t *testing.T, from, to int) {
	t.Helper()
	publishBodies(t, l.name, from, to, func(int) string { return "x lane" })
}

// consume runs the consumer until the function that it returns is called, or the test ends. The handler calls during,
// if it is not nil.
func (l *laneQueue) consume(t *testing.T, during func(id string)) (stop func()) {
	t.Helper()
	lane := l.lane
	if lane == nil {
		lane = laneOf
	}
	c := consumer.Consumer{
		Queue: l.name, Ordered: true, HoldLanes: true, Counter: l.counts, Lane: lane, MaxRetries: -1,
		Logger: slog.New(slog.NewTextHandler(l, nil)),
		Handler: func(_ context.Context, d amqp.Delivery) error {
			if during != nil {
				during(d.MessageId)
			}
			if l.receive != nil {
				l.receive(d)
			}
			l.mu.Lock()
			defer l.mu.Unlock()
			if l.bad[d.MessageId] {
				return errors.New("no stock")
			}
			l.handled = append(l.handled, d.MessageId)
			return nil
		},
	}
	return runConsumer(t, c, dialer(t), consumer.ErrUncleanStop)
}

// Write appends to the consumer's log.
func (l *laneQueue) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.log.Write(line)
}

func (l *laneQueue) logged(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.log.String(), text)
}

func (l *laneQueue) fix() {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.bad)
}

func (l *laneQueue) ran() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.handled)
}

func (l *laneQueue) wantRan(t *testing.T, want ...string) {
	t.Helper()
	eventually(t, "handled messages", func() bool { return len(l.ran()) >= len(want) })
	if got := l.ran(); !slices.Equal(got, want) {
		t.Errorf("handled %q, want %q", got, want)
	}
}

func (l *laneQueue) awaitDead(t *testing.T, n int) {
	t.Helper()
	eventually(t, "dead letters", func() bool { return depthOf(dialer(t), l.name+".dlq") == n })
}

func (l *laneQueue) open(t *testing.T, lane string) (*deadletter.Queue, deadletter.Lane) {
	t.Helper()
	admin := l.counts.Admin()
	q := openDead(t, deadletter.Queue{Name: l.name + ".dlq", Records: admin})
	return q, deadletter.Lane{Queue: l.name, Name: lane, Store: admin}
}

// flush has the store lose its memory of the queue, and empties the consumer's log.
func (l *laneQueue) flush(t *testing.T) {
	t.Helper()
	opts, err := redis.ParseURL(redisURL(t))
	need(t, err)
	rdb := redis.NewClient(opts)
	defer func() { need(t, rdb.Close()) }()
	keys := rdb.Scan(t.Context(), 0, l.prefix+"*", 100).Iterator()
	for keys.Next(t.Context()) {
		need(t, rdb.Del(t.Context(), keys.Val()).Err())
	}
	need(t, keys.Err())
	l.mu.Lock()
	defer l.mu.Unlock()
	l.log.Reset()
}

// TestLanesOfALostStore: a store that loses its data while a lane is blocked, during a session or between two, is
// reported. Only then a later message of the lane is attempted.
func TestLanesOfALostStore(t *testing.T) {
	servertest.Long(t)
	t.Parallel()
	for _, during := range []bool{true, false} {
		l := newLaneQueue(t, "0")
		l.publish(t, 0, 2)
		reported := func(id string) {
			if id == "2" && !l.logged("no lanes are recorded for this queue") {
				t.Error("a message overtakes the dead letters, and the session did not say that its store is empty")
			}
		}
		stop := l.consume(t, reported)
		l.awaitDead(t, 2)
		if during {
			l.flush(t)
		} else {
			stop()
			l.flush(t)
			l.consume(t, reported)
		}
		l.publish(t, 2, 3)
		l.wantRan(t, "2")
		c := ops.Collector{VHost: "/", Store: l.counts.Admin(), Dial: dialer(t),
			API: inspect.Need{Management: managementURL(t)}}
		defer c.Close()
		eventually(t, "a status that says that the store does not know the dead letters", func() bool {
			s, err := c.Collect(t.Context(), ops.Question{Queue: l.name})
			return err == nil && s.Dead.Unrecorded == 2 // a busy machine's store may be late
		})
		if during && !l.logged("the store has lost its memory of blocked lanes") {
			t.Error("the session did not end for the lost memory")
		}
	}
}

// TestMissingDeadLetterOfALane: a dead letter that another program took blocks its lane, until an operator gives it up.
func TestMissingDeadLetterOfALane(t *testing.T) {
	servertest.Long(t)
	t.Parallel()
	for taken, before := range [][]string{nil, {"0"}} {
		l := blockedLane(t, 3)
		id := "01"[taken : taken+1]
		need(t, onChannel(dialer(t), func(ch *amqp.Channel) error {
			var last amqp.Delivery
			for range taken + 1 {
				last = getOne(t, ch, l.name+".dlq")
			}
			if last.MessageId != id {
				t.Fatalf("took %q, want %q", last.MessageId, id)
			}
			return last.Ack(false)
		}))
		l.awaitDead(t, 2)
		l.fix()
		q, lane := l.open(t, "lane")
		lane.Wait = 2 * time.Second // for a dead letter that does not come
		for range 2 {
			if done, err := q.ReplayLane(t.Context(), lane); !errors.Is(err, deadletter.ErrLaneMissing) ||
				!strings.Contains(err.Error(), `message "`+id+`"`) || done.Released {
				t.Errorf("message %s was taken: %+v, %v", id, done, err)
			}
		}
		if done, err := q.DropFirst(t.Context(), lane); !errors.Is(err, deadletter.ErrLaneMissing) || done.Dropped != 0 {
			t.Errorf("dropped without Missing: %+v, %v", done, err)
		}
		l.wantRan(t, before...)
		lane.Missing, lane.Wait = true, 0
		if done, err := q.DropFirst(t.Context(), lane); err != nil || done.Dropped != 1 || done.Released {
			t.Errorf("dropped: %+v, %v", done, err)
		}
		if done, err := q.ReplayLane(t.Context(), lane); err != nil || !done.Released {
			t.Errorf("replayed: %+v, %v", done, err)
		}
		l.wantRan(t, append(before, []string{"1", "2"}[taken:]...)...)
	}
}

// TestLateDeadLetterOfALane: a dead letter that arrives while its lane is dropped, missing ones included, is dropped to
// the file.
func TestLateDeadLetterOfALane(t *testing.T) {
	t.Parallel()
	l := blockedLane(t, 3)
	last := l.takeLast(t, 3)
	q, lane := l.open(t, "lane")
	lane.Missing = true
	reads := 0
	lane.Store = &watchedLane{Lanes: lane.Store, before: func() {
		if reads++; reads != 2 { // it has taken the dead letters once, and found two
			return
		}
		l.putBack(t, l.name+".dlq", last)
	}}
	kept := 0
	lane.Keep = func(some []*deadletter.Message) error {
		kept += len(some)
		return nil
	}
	if done, err := q.DropLane(t.Context(), lane); err != nil || done.Dropped != 3 || done.Missing != 0 || kept != 3 ||
		!done.Released {
		t.Errorf("dropped: %+v, %d kept, %v", done, kept, err)
	}
}

// watchedLane calls a function before each reading of a lane, and another after the first.
type watchedLane struct {
	deadletter.Lanes
	before, after func() // nil: none
}

func (w *watchedLane) Lane(ctx context.Context, vhost, queue, lane string) (*counter.LaneState, error) {
	if w.before != nil {
		w.before()
	}
	state, err := w.Lanes.Lane(ctx, vhost, queue, lane)
	if after := w.after; after != nil {
		w.after = nil
		after()
	}
	return state, err
}

// TestReplayOfABusyLane: a replay of a lane that never pauses ends, and the next one finds the lane in order.
func TestReplayOfABusyLane(t *testing.T) {
	t.Parallel()
	l := blockedLane(t, 2)
	l.fix()
	q, lane := l.open(t, "lane")
	published := 2
	busy := lane
	busy.Passes = 3
	busy.Store = &watchedLane{Lanes: lane.Store, before: func() {
		l.publish(t, published, published+1)
		published++
	}}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if done, err := q.ReplayLane(ctx, busy); !errors.Is(err, deadletter.ErrLaneBusy) || done.Passes != 3 ||
		done.Replayed == 0 || done.Released {
		t.Errorf("busy: %+v, %v", done, err)
	}
	if done, err := q.ReplayLane(t.Context(), lane); err != nil || !done.Released {
		t.Errorf("at rest: %+v, %v", done, err)
	}
	l.wantRan(t, numbered("", published)...)
}

// TestLaneNames: a lane of any name up to 1 KiB is held, listed by that name, and replayed.
func TestLaneNames(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", " ", "a b\n\x00", "\xff\xfe", strings.Repeat("x", 1024)} {
		l := newLaneQueue(t, "0")
		publishBodies(t, l.name, 0, 2, func(int) string { return "x " + name })
		l.consume(t, nil)
		l.awaitDead(t, 2)
		held, _, err := l.counts.Admin().Lanes(t.Context(), "/", l.name, math.MaxInt)
		if err != nil || len(held) != 1 || held[0].Lane != name || held[0].By != "0" || held[0].Messages != 2 {
			t.Fatalf("lane %.20q: %+v, %v", name, held, err)
		}
		l.fix()
		q, lane := l.open(t, held[0].Lane)
		if done, err := q.ReplayLane(t.Context(), lane); err != nil || !done.Released || done.Replayed != 2 {
			t.Errorf("lane %.20q: %+v, %v", name, done, err)
		}
		l.wantRan(t, "0", "1")
	}
}

// TestReleasedLane: the drop of a lane's only message releases it, and later changes of the lane have no effect.
func TestReleasedLane(t *testing.T) {
	t.Parallel()
	l := blockedLane(t, 1)
	q, lane := l.open(t, "lane")
	if done, err := q.DropFirst(t.Context(), lane); err != nil || done.Dropped != 1 || !done.Released {
		t.Errorf("the only message: %+v, %v", done, err)
	}
	if done, err := q.DropFirst(t.Context(), lane); !errors.Is(err, counter.ErrNotBlocked) || done.Dropped != 0 {
		t.Errorf("dropped again: %+v, %v", done, err)
	}
	if done, err := q.ReplayLane(t.Context(), lane); err != nil || done.Replayed != 0 {
		t.Errorf("replayed: %+v, %v", done, err)
	}
	l.publish(t, 1, 2)
	l.wantRan(t, "1")
}

// TestDropDuringReplay: an operator who drops the first message while another replays it drops nothing.
func TestDropDuringReplay(t *testing.T) {
	t.Parallel()
	l := newLaneQueue(t, "0")
	l.publish(t, 0, 3)
	again, run := make(chan struct{}), make(chan struct{})
	attempts := 0
	l.consume(t, func(id string) {
		if id != "0" {
			return
		}
		if attempts++; attempts == 2 {
			close(again)
			<-run
		}
	})
	l.awaitDead(t, 3)
	l.fix()
	q, lane := l.open(t, "lane")
	type outcome struct {
		done deadletter.LaneResult
		err  error
	}
	replayed := make(chan outcome, 1)
	go func() {
		done, err := q.ReplayLane(t.Context(), lane)
		replayed <- outcome{done, err}
	}()
	<-again
	second, hasty := l.open(t, "lane")
	hasty.Wait = 2 * time.Second
	if done, err := second.DropFirst(t.Context(), hasty); !errors.Is(err, deadletter.ErrLaneWaiting) || done.Dropped != 0 {
		t.Errorf("dropped: %+v, %v", done, err)
	}
	close(run)
	if r := <-replayed; r.err != nil || !r.done.Released || r.done.Replayed != 3 {
		t.Errorf("replayed: %+v, %v", r.done, r.err)
	}
	l.wantRan(t, "0", "1", "2")
}
