package counter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/go-redis/v9"

	"github.com/strikesmq/strikes/counter/rules"
)

// gate is a fake Redis that lets no EVALSHA pass until it is open, and knows the tokens of those that came.
type gate struct {
	*miniredis.Miniredis
	open chan struct{}

	mu   sync.Mutex
	came map[string]int
	lose string // at this token's command the connection breaks; the command is not run
}

func newGate(t *testing.T) *gate {
	g := &gate{Miniredis: miniredis.RunT(t), open: make(chan struct{}), came: map[string]int{}}
	g.Server().SetPreHook(func(to *server.Peer, cmd string, args ...string) bool {
		if cmd != "EVALSHA" && cmd != "EVAL" {
			return false
		}
		<-g.open
		g.mu.Lock()
		defer g.mu.Unlock()
		lost := g.lose != "" && slices.Contains(args, g.lose)
		for _, arg := range args {
			if strings.HasPrefix(arg, "token-") && (lost || cmd == "EVALSHA") {
				g.came[arg]++
			}
		}
		if lost {
			to.Flush()
			to.Close()
		}
		return lost
	})
	return g
}

func (g *gate) times(token string) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.came[token]
}

// clients are a Counter on one server and one on a Cluster, both of the gate's.
func (g *gate) clients(t *testing.T) map[string]*Counter {
	t.Helper()
	return map[string]*Counter{
		"one server": dialTest(t, "redis://"+g.Addr()),
		"cluster":    dialTest(t, "redis+cluster://"+g.Addr()+"/0"),
	}
}

// callers send FAIL concurrently, each with a token and an id of its own.
type callers struct {
	c       *Counter
	errs    []error
	cancels []context.CancelFunc
	done    []chan struct{}
}

func token(i int) string { return fmt.Sprint("token-", i) }

// startCallers starts n callers one after the other, so that the first ones flush and the others wait in this order.
func startCallers(t *testing.T, c *Counter, n int) *callers {
	t.Helper()
	f := &callers{c: c, errs: make([]error, n)}
	for i := range n {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		f.cancels, f.done = append(f.cancels, cancel), append(f.done, done)
		go func() {
			defer close(done)
			a := attempt(message(fmt.Sprint("id ", i)), token(i))
			var got Reply
			if got, f.errs[i] = c.Fail(ctx, a, again); f.errs[i] == nil && got.Failures != 1 {
				f.errs[i] = fmt.Errorf("another reply: %+v", got)
			}
		}()
		f.await(t, i+1)
	}
	return f
}

// await returns once so many requests flush or wait.
func (f *callers) await(t *testing.T, n int) {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(100 * time.Microsecond) {
		flushes, waiting := f.c.pipe.load()
		if flushes == min(n, maxFlushes) && waiting == n-flushes {
			return
		}
	}
	t.Fatalf("%d callers did not come", n)
}

// load is how many flushes are under way, and how many commands wait for one.
func (p *pipeline) load() (flushes, waiting int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.lines {
		flushes, waiting = flushes+l.flushes, waiting+len(l.waiting)
	}
	return flushes, waiting
}

func (f *callers) arrive(t *testing.T) {
	t.Helper()
	for i, done := range f.done {
		select {
		case <-done:
		case <-time.After(time.Minute):
			t.Fatalf("caller %d still waits", i)
		}
	}
}

// batches notes how many steps go out as one command.
type batches struct {
	redis.Hook
	mu    sync.Mutex
	sizes []int
}

func (*batches) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (*batches) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }
func (b *batches) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		b.mu.Lock()
		for _, cmd := range cmds {
			if cmd.Name() == "evalsha" {
				b.sizes = append(b.sizes, cmd.Args()[2].(int)-4) // keys that are records'
			}
		}
		b.mu.Unlock()
		return next(ctx, cmds)
	}
}

func TestConcurrentStepsShareRoundTrips(t *testing.T) {
	g := newGate(t)
	c := g.clients(t)["one server"]
	var seen batches
	c.rdb.AddHook(&seen)
	const n = maxFlushes + maxBatch + 3
	f := startCallers(t, c, n)
	close(g.open)
	f.arrive(t)
	for i, err := range f.errs {
		if err != nil || g.times(token(i)) != 1 && g.times(token(i)) != 2 { // twice: the script was not known
			t.Errorf("caller %d: %v, sent %d times", i, err, g.times(token(i)))
		}
	}
	if !slices.Contains(seen.sizes, maxBatch) || slices.Max(seen.sizes) != maxBatch {
		t.Errorf("batches of %v, want one of %d", seen.sizes, maxBatch)
	}
}

// TestLostConnection: it leaves its batch undecided (a client for one server forgets even the replies that came before
// it broke), and nothing is sent again.
func TestLostConnection(t *testing.T) {
	for _, kind := range []string{"one server", "cluster"} {
		t.Run(kind, func(t *testing.T) {
			g := newGate(t)
			c := g.clients(t)[kind]
			mustDo(t, c.rdb, "SCRIPT", "LOAD", stepFail.source)
			g.lose = token(6)
			f := startCallers(t, c, 10)
			close(g.open)
			f.arrive(t)
			for i, err := range f.errs {
				var failed *StoreError
				if i < maxFlushes && err != nil || i >= 6 && err == nil || err != nil && (!errors.As(err, &failed) ||
					failed.Fault != FaultUnreachable) {
					t.Errorf("caller %d: %v", i, err)
				}
				if n := g.times(token(i)); n > 1 || i <= 6 && n != 1 {
					t.Errorf("caller %d: sent %d times", i, n)
				}
			}
		})
	}
}

// TestCallersLeave: one that is canceled waits no longer, whether its command is on its way or not, and the others do.
func TestCallersLeave(t *testing.T) {
	g := newGate(t)
	c := g.clients(t)["one server"]
	f := startCallers(t, c, 6)
	for _, i := range []int{0, 4} {
		f.cancels[i]()
		select {
		case <-f.done[i]:
		case <-time.After(time.Minute):
			t.Fatalf("caller %d still waits", i)
		}
	}
	close(g.open)
	f.arrive(t)
	for i, err := range f.errs {
		left := i == 0 || i == 4
		if left != errors.Is(err, context.Canceled) || !left && err != nil {
			t.Errorf("caller %d: %v", i, err)
		}
	}
	if g.times(token(4)) != 0 {
		t.Error("the command of a caller that left was sent")
	}
}

// TestDeadlineOfABatch: the last deadline of all ends a batch; one without a deadline lets it wait.
func TestDeadlineOfABatch(t *testing.T) {
	soon, late := time.Now().Add(time.Minute), time.Now().Add(time.Hour)
	for name, tc := range map[string]struct {
		of   []time.Time
		want time.Time
	}{
		"one": {[]time.Time{soon}, soon}, "the last": {[]time.Time{soon, late, soon}, late},
		"none": {[]time.Time{late, {}}, time.Time{}},
	} {
		var batch []*request
		for _, d := range tc.of {
			batch = append(batch, &request{deadline: d})
		}
		ctx, cancel := untilLast(batch)
		if got, _ := ctx.Deadline(); !got.Equal(tc.want) {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
		cancel()
	}
}

// TestManyCallersMeetAnUnknownScript: each is given it, and each step is taken once.
func TestManyCallersMeetAnUnknownScript(t *testing.T) {
	for _, c := range servers(t) {
		mustDo(t, c.rdb, "SCRIPT", "FLUSH")
		var all sync.WaitGroup
		for i := range 50 {
			all.Go(func() {
				if _, err := c.Fail(t.Context(), attempt(message("1"), token(i)), Failure{Limit: 99}); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if got := show(c.Fail(t.Context(), attempt(message("1"), "last"),
			Failure{Limit: 99})); got != "REQUEUE 51+0 fence 0" {
			t.Error(got)
		}
	}
}

// TestCloseEndsWhatIsUnderWay: a caller whose step hangs gets an error, and nothing is left behind.
func TestCloseEndsWhatIsUnderWay(t *testing.T) {
	g := newGate(t)
	c, err := Dial("redis://"+g.Addr()+"?read_timeout=20s", nil)
	need(t, err)
	f := startCallers(t, c, maxFlushes+1)
	defer close(g.open)
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if flushes, waiting := c.pipe.load(); flushes+waiting > 0 {
		t.Errorf("after Close %d flushes are under way and %d steps wait", flushes, waiting)
	}
	f.arrive(t)
	for i, err := range f.errs {
		var failed *StoreError
		if !errors.As(err, &failed) || failed.Fault != FaultUnreachable {
			t.Errorf("caller %d: %v", i, err)
		}
	}
}

// TestOneBadRecordOfMany: a text that is no record fails its own step, and none of the others in the batch.
func TestOneBadRecordOfMany(t *testing.T) {
	for _, c := range servers(t) {
		mustDo(t, c.rdb, "SCRIPT", "LOAD", stepFail.source)
		var batch []*request
		for i := range 10 {
			m := message(fmt.Sprint("id ", i))
			switch key := c.opts.keys(m).record; i {
			case 4:
				mustDo(t, c.rdb, "SET", key, "text")
			case 6:
				mustDo(t, c.rdb, "HSET", key, "field", "value")
			}
			args := []any{token(i), m.ID, "", "test", 9, -1, 0, "failed", "boom", 5}
			batch = append(batch, &request{script: script{"evalsha", stepFail.sha1}, message: m, args: args,
				done: make(chan struct{})})
		}
		c.pipe.send(batch)
		for i, p := range batch {
			if bad := i == 4 || i == 6; bad != (p.err != nil) || bad == (p.reply != nil && p.err == nil) {
				t.Errorf("step %d: %v, %v", i, p.reply, p.err)
			}
		}
	}
}

// TestEachQueueAndKindOfStepForItself: each step of a batch gets its own reply.
func TestEachQueueAndKindOfStepForItself(t *testing.T) {
	for _, c := range counters(t) {
		var all sync.WaitGroup
		for i := range 60 {
			all.Go(func() {
				m := Message{VHost: "/", Queue: fmt.Sprint("queue ", i%2), ID: fmt.Sprint("id ", i)}
				for range 1 + i%3 {
					if _, err := c.Fail(t.Context(), attempt(m, fmt.Sprint("failed-", i)), again); err != nil {
						t.Error(err)
					}
				}
				a := attempt(m, fmt.Sprint("started-", i))
				if got := new(ordinals).in(t, show(c.Start(t.Context(), a, rules.ModeIsolated, 9))); got != "RUN 1+0 fence 1" {
					t.Errorf("%d: START: %s", i, got)
				}
				if err := c.End(t.Context(), a, i%4 == 0); err != nil {
					t.Error(err)
				}
				if got := c.look(t, m); got.ID != m.ID || got.Failures != 1 || got.Crashes != 0 || got.OpenToken != "" ||
					got.indexed != (i%4 != 0) {
					t.Errorf("%d: %+v", i, got)
				}
			})
		}
		all.Wait()
	}
}
