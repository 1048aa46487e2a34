package integration

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/proctest"
	"github.com/strikesmq/strikes/topology"
)

var (
	orderMessages = flag.Int("order.messages", 600, "messages of each case of TestOrder; 1,500 in .ci/run long")
	orderCuts     = flag.Int("order.cuts", 4, "connections that are cut in each case of TestOrder")
)

// TestOrder runs three ordered consumers of a queue of which one message in ten fails, some always, and cuts their
// connections.
func TestOrder(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		retry consumer.RetryMode
		lanes int
		set   consumer.Consumer
	}{
		{"requeue", consumer.RetryRequeue, 1, consumer.Consumer{}},
		{"in place, prefetch 1", consumer.RetryInPlace, 1, consumer.Consumer{Prefetch: 1}},
		{"in place, prefetch 10", consumer.RetryInPlace, 1, consumer.Consumer{Prefetch: 10}},
		{"in place, prefetch 30", consumer.RetryInPlace, 1, consumer.Consumer{}},
		{"16 lanes, prefetch 100", consumer.RetryInPlace, 16, consumer.Consumer{Prefetch: 100, Concurrency: 16,
			Lane: laneOf}},
	} {
		for _, typ := range queueTypes {
			t.Run(fmt.Sprintf("%s/%s", tc.name, typ), func(t *testing.T) {
				queue := declaredAs(t, topology.Spec{Type: typ, SingleActiveConsumer: true})
				o := newOrdered(*orderMessages, tc.lanes)
				o.requeue = tc.retry == consumer.RetryRequeue
				o.publish(t, queue)
				c := tc.set
				c.Queue, c.Ordered, c.Retry, c.Counter = queue, true, tc.retry, counters(t)
				dialers := o.start(t, c, 3)
				for cut := range *orderCuts {
					o.reach(t, (cut+1)*len(o.done)/(*orderCuts+1))
					dialers[rand.IntN(len(dialers))].cut()
					dialers[cut%len(dialers)].cut()
				}
				o.reach(t, len(o.done))
				o.report(t)
				o.checkDead(t, c.Counter.(*counter.Counter), queue)
			})
		}
	}
}

// ordered is messages 0 to n-1, and which of them are done.
type ordered struct {
	lanes   int
	requeue bool
	takes   time.Duration // the handler's time for each message

	mu         sync.Mutex
	done       []bool
	failed     []int // how often the handler failed each message
	left       int
	behind     []int // of each lane: the first that is not done
	violations []violation
}

// violation is message i, which a consumer handled before another one that was ahead of it.
type violation struct {
	i, ahead int
	by       *cuttable
}

func (v violation) String() string { return fmt.Sprintf("%d before %d", v.i, v.ahead) }

func newOrdered(n, lanes int) *ordered {
	o := &ordered{lanes: lanes, done: make([]bool, n), failed: make([]int, n), left: n, behind: make([]int, lanes)}
	for lane := range o.behind {
		o.behind[lane] = lane
	}
	return o
}

// The body of message i is its number and its lane.
func (o *ordered) publish(t *testing.T, queue string) {
	t.Helper()
	const batch = 5000
	for from := 0; from < len(o.done); from += batch {
		publishBodies(t, queue, from, min(from+batch, len(o.done)), func(i int) string {
			return fmt.Sprint(i, " ", i%o.lanes)
		})
	}
}

func laneOf(d amqp.Delivery) string {
	_, lane, _ := strings.Cut(string(d.Body), " ")
	return lane
}

// fails is how often message i fails.
func fails(i int) int {
	switch {
	case i%100 == 50:
		return 1000
	case i%11 == 5:
		return 1 + i%3
	}
	return 0
}

// checkDead checks that a message that fails too often is dead-lettered once, and no other is.
func (o *ordered) checkDead(t *testing.T, c *counter.Counter, queue string) {
	t.Helper()
	dead, want := map[string]int{}, 0
	for i := range o.done {
		if fails(i) > consumer.DefaultMaxRetries {
			want++
		}
	}
	// A quorum queue hands its dead letters over after the nack, and a nack that was lost at a cut is sent again.
	proctest.Eventually(t, time.Minute, fmt.Sprintf("%d dead letters", want), func() bool {
		for _, id := range ids(getAll(t, queue+".dlq")) {
			dead[id]++
		}
		return len(dead) >= want
	})
	for i := range o.done {
		id, want := strconv.Itoa(i), 0
		if fails(i) > consumer.DefaultMaxRetries {
			want = 1
		}
		if dead[id] == want {
			continue
		}
		// An attempt of a session that was just cut may fail beside the next one, which has the same number. Both count.
		if overlap := o.failed[i] - fails(i); dead[id] == 1 && overlap > 0 && o.failed[i] == consumer.DefaultMaxRetries+1 {
			t.Logf("message %d: %d attempts overlapped at a cut", i, overlap)
			continue
		}
		records, err := c.Admin().Get(t.Context(), "/", queue, id)
		need(t, err)
		if dead[id] == 1 && len(records) == 1 && records[0].Counted() == consumer.DefaultMaxRetries {
			t.Logf("message %d: a crash reached the limit before it was reversed, see docs/guarantees.md: %+v", i, records[0])
			continue
		}
		t.Errorf("message %d: %d dead letters, want %d; it fails %d times, and is recorded as %+v", i, dead[id], want,
			fails(i), records)
	}
}

// start runs n consumers in this process, each with connections that can be cut.
func (o *ordered) start(t *testing.T, c consumer.Consumer, n int) []*cuttable {
	t.Helper()
	dialers := make([]*cuttable, n)
	for i := range dialers {
		link := &cuttable{url: brokerURL(t)}
		dialers[i] = link
		mine := c
		mine.Handler = func(ctx context.Context, d amqp.Delivery) error { return o.handle(ctx, link, d) }
		mine.Backoff = func(int) time.Duration { return time.Millisecond }
		mine.Observer = observer(func(e consumer.Event) { o.observe(e, link) })
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- mine.Run(ctx, link.dial) }()
		t.Cleanup(func() {
			cancel()
			if err := <-ended; err != nil && !errors.Is(err, consumer.ErrUncleanStop) { // its connection may just have been cut
				t.Errorf("Run: %v", err)
			}
		})
	}
	return dialers
}

type observer func(consumer.Event)

func (o observer) Observe(_ context.Context, e consumer.Event) { o(e) }

// observe takes note of dead letters. With Requeue the next message can be here before that is told, so there the last
// failure counts. It can also be here first if the connection was cut after the nack. Then it was not too early at
// another consumer.
func (o *ordered) observe(e consumer.Event, link *cuttable) {
	if e.Outcome != consumer.OutcomeDeadLetter {
		return
	}
	o.finish(e.ID)
	if link.justCut() {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.violations = slices.DeleteFunc(o.violations, func(v violation) bool {
			return strconv.Itoa(v.ahead) == e.ID && v.by != link
		})
	}
}

func (o *ordered) handle(ctx context.Context, link *cuttable, d amqp.Delivery) error {
	i, err := strconv.Atoi(d.MessageId)
	if err != nil {
		return err
	}
	o.begin(ctx, i, link)
	time.Sleep(o.takes)
	attempt, _ := consumer.AttemptFrom(ctx)
	if attempt.Number <= fails(i) {
		if o.requeue && attempt.Number == attempt.Last {
			o.finish(d.MessageId)
		}
		o.mu.Lock()
		o.failed[i]++
		o.mu.Unlock()
		return errors.New("not yet")
	}
	o.finish(d.MessageId)
	return nil
}

// begin notes a violation if a message ahead in the lane is not done. A consumer whose connection was cut may not know
// yet.
func (o *ordered) begin(ctx context.Context, i int, link *cuttable) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if first := o.behind[i%o.lanes]; first < i && !link.justCut() && ctx.Err() == nil {
		o.violations = append(o.violations, violation{i, first, link})
	}
}

func (o *ordered) finish(id string) {
	i, err := strconv.Atoi(id)
	if err != nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.done[i] {
		return
	}
	o.done[i] = true
	o.left--
	for lane := i % o.lanes; o.behind[lane] < len(o.done) && o.done[o.behind[lane]]; {
		o.behind[lane] += o.lanes
	}
}

func (o *ordered) reach(t *testing.T, n int) {
	t.Helper()
	proctest.Eventually(t, 2*time.Minute, fmt.Sprintf("%d messages done", n), func() bool { return o.reached(n) })
}

func (o *ordered) reached(n int) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.done)-o.left >= n
}

func (o *ordered) report(t *testing.T) {
	t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	if n := len(o.violations); n > 0 {
		t.Errorf("%d messages of %d were handled too early, such as %v", n, len(o.done), o.violations[:min(n, 10)])
	}
}

// cuttable dials connections of which the newest can be cut.
type cuttable struct {
	url string

	mu   sync.Mutex
	conn net.Conn // nil: it was cut, and no other was dialled since
}

func (c *cuttable) dial(ctx context.Context) (*amqp.Connection, error) {
	return consumer.Dialer(c.url, amqp.Config{Dial: func(network, addr string) (net.Conn, error) {
		conn, err := amqp.DefaultDial(5*time.Second)(network, addr)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.conn = conn
		return conn, err
	}})(ctx)
}

func (c *cuttable) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn != nil {
		_ = c.conn.Close()
		c.conn = nil
	}
}

// justCut reports whether the consumer may not have noticed yet. It has once it dials again.
func (c *cuttable) justCut() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.conn == nil
}
