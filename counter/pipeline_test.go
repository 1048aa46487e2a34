package counter

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/strikesmq/strikes/counter/rules"
	"github.com/strikesmq/strikes/internal/proxy"
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
				if r, err := c.Start(t.Context(), a, rules.ModeIsolated, 9); err != nil || r.Code != rules.ReplyRun ||
					r.Failures != 1 || r.Crashes != 0 || r.Fence == 0 {
					t.Errorf("%d: START: %+v, %v", i, r, err)
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

// flushes notes of each batch whether the caller's goroutine sends it, and lets it go when the test does.
type flushes struct {
	redis.Hook
	begun   chan bool
	release map[bool]chan struct{} // true: those that a caller's goroutine sends
}

func (*flushes) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (*flushes) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }
func (f *flushes) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if cmds[0].Name() != "evalsha" { // of a new connection
			return next(ctx, cmds)
		}
		itself := strings.Contains(string(debug.Stack()), "counter.(*Counter).Fail")
		f.begun <- itself
		<-f.release[itself]
		return next(ctx, cmds)
	}
}

func (f *flushes) releaseAll() {
	close(f.release[false])
	close(f.release[true])
}

// aloneOn is a Counter on a server that knows the script, behind a proxy, and its flushes.
func aloneOn(t *testing.T) (*Counter, *flushes, *proxy.Proxy) {
	t.Helper()
	p, err := proxy.New(t.Context(), miniredis.RunT(t).Addr())
	need(t, err)
	t.Cleanup(p.Close)
	c, err := Dial("redis://"+p.Addr()+"?read_timeout=20s", nil)
	need(t, err)
	t.Cleanup(func() { _ = c.Close() })
	mustDo(t, c.rdb, "SCRIPT", "LOAD", stepFail.source)
	f := &flushes{begun: make(chan bool, 10), release: map[bool]chan struct{}{false: make(chan struct{}),
		true: make(chan struct{})}}
	c.rdb.AddHook(f)
	return c, f, p
}

// quiet returns when no flush is under way: a flush ends after its callers are answered.
func quiet(c *Counter) {
	for flushes, _ := c.pipe.load(); flushes > 0; flushes, _ = c.pipe.load() {
		time.Sleep(100 * time.Microsecond)
	}
}

// failWithin takes one step; zero: without a deadline.
func failWithin(t *testing.T, c *Counter, d time.Duration, i int) error {
	t.Helper()
	ctx := t.Context()
	if d > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, d)
		defer cancel()
	}
	_, err := c.Fail(ctx, attempt(message("1"), token(i)), again)
	return err
}

// TestLoneCallerSendsItsStepItself: it does so only if the store answered the last batch and the caller's deadline is
// near. A store that falls silent keeps it no longer than any other caller.
func TestLoneCallerSendsItsStepItself(t *testing.T) {
	c, f, p := aloneOn(t)
	f.releaseAll()
	for i, tc := range []struct {
		name   string
		within time.Duration
		mute   bool
		itself bool
	}{
		{"before the store has answered", brief, false, false},
		{"after it has", brief, false, true},
		{"with a distant deadline", time.Minute, false, false},
		{"without a deadline", 0, false, false},
		{"when it falls silent", 50 * time.Millisecond, true, true},
		{"after it was silent", brief, false, false},
		{"after it has answered again", brief, false, true},
	} {
		if tc.mute {
			p.Mute(true)
		}
		began := time.Now()
		if err := failWithin(t, c, tc.within, i); (err != nil) != tc.mute {
			t.Errorf("%s: %v", tc.name, err)
		}
		if took := time.Since(began); tc.mute && took > 10*time.Second { // the read's own timeout is 20 s
			t.Errorf("%s: returned after %v", tc.name, took)
		}
		if itself := <-f.begun; itself != tc.itself {
			t.Errorf("%s: the caller sends its step itself: %v, want %v", tc.name, itself, tc.itself)
		}
		if tc.mute {
			p.Mute(false) // its flush waits on for the reply
		} else {
			quiet(c)
		}
	}
}

// TestLoneCallerIsNotKeptByOthers: steps that came while its own was under way are sent by another goroutine.
func TestLoneCallerIsNotKeptByOthers(t *testing.T) {
	c, f, _ := aloneOn(t)
	close(f.release[false])
	need(t, failWithin(t, c, brief, 0))
	<-f.begun
	quiet(c)
	f.release[false] = make(chan struct{})
	done := make(chan error, 4)
	var itself [2]bool
	for i := range 4 { // the first sends its own step, the second flies beside it, the others wait
		go func() { done <- failWithin(t, c, map[bool]time.Duration{true: brief}[i == 0], i+1) }()
		for flushes, waiting := 0, 0; flushes+waiting <= i; flushes, waiting = c.pipe.load() {
			time.Sleep(100 * time.Microsecond)
		}
		if i < len(itself) {
			itself[i] = <-f.begun
		}
	}
	if itself != [2]bool{true, false} {
		t.Fatalf("the callers of the first two steps send them themselves: %v", itself)
	}
	close(f.release[true])
	if err := <-done; err != nil { // the deadline would be an error
		t.Error(err)
	}
	if itself := <-f.begun; itself {
		t.Error("a caller sends the steps of others")
	}
	close(f.release[false])
	for range 3 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// TestStepsShareACall: a step that shares a call gets the same reply, and leaves the same record, as a step that is
// sent alone. The steps before it in the call change neither.
func TestStepsShareACall(t *testing.T) {
	server := miniredis.RunT(t)
	c := dialTest(t, "redis://"+server.Addr())
	delay := rules.Delay{CopyNumber: 1, Above: time.Minute, Lease: time.Minute, Body: "ab"}
	progress, none := rules.Progress{Breaker: 5}, rules.Progress{}
	// take sends START, then FAIL, of nine messages of a queue: in one call if shared, with the message first at its
	// beginning. It returns the replies and records.
	take := func(queue string, first int, shared bool) map[string]string {
		server.SetTime(time.Unix(1_700_000_000, 0))
		of := func(id string, d rules.Delay, p rules.Progress) Attempt {
			return Attempt{Message: Message{VHost: "/", Queue: queue, ID: id}, Token: "second", Consumer: "of " + id, Delay: d,
				Progress: p, First: d == rules.Delay{}, Received: time.Now()}
		}
		attempts := []Attempt{of("moved", delay, none), of("failed", rules.Delay{}, progress),
			of("new", rules.Delay{}, progress), of("dead", rules.Delay{}, progress), of("moved again", delay, none),
			of("new copy", delay, none),
			of("dead copy", rules.Delay{}, progress), of("superseded", rules.Delay{Above: time.Minute, Body: "ab"}, none),
			of("spent", rules.Delay{}, progress)}
		for _, before := range []struct {
			at int
			f  Failure
		}{{0, Failure{Limit: 3, Wait: time.Hour}},
			{1, Failure{Limit: 3}}, {3, Failure{}},
			{4, Failure{Limit: 3, Wait: time.Hour}}, {6, Failure{Limit: 3, Wait: time.Hour}}, {6, Failure{}},
			{7, Failure{Limit: 3}}, {8, Failure{Limit: 3}}, {8, Failure{Limit: 4}}} {
			a := attempts[before.at]
			a.Token, a.Progress, a.First = fmt.Sprint("first-", before.f.Limit), rules.Progress{}, false
			a.Delay = rules.Delay{Above: time.Second, Body: "ab"}
			if before.at == 7 {
				a.Delay.CopyNumber = 1 // and this delivery is the original
			}
			need(t, errOf(c.Fail(t.Context(), a, before.f)))
		}
		server.SetTime(time.Unix(1_700_001_000, 0)) // past the tombstones
		out := map[string]string{}
		for _, s := range []step{stepStart, stepFail} {
			var all []*request
			for _, a := range slices.Concat(attempts[first:], attempts[:first]) {
				args := []any{"isolated", 0, 0}
				if s == stepFail {
					a.Token, args = "third", []any{120000, "failed", "reason of " + a.ID, 1, 0, 0}
				}
				all = append(all, &request{script: script{"eval", s.source}, message: a.Message, done: make(chan struct{}),
					args: stepArgs(s, a, 3, time.Now(), args)})
			}
			if shared {
				c.sendScripts(t.Context(), all)
			}
			for _, r := range all {
				if !shared {
					c.sendScripts(t.Context(), []*request{r})
				}
				key := c.opts.keys(r.message).record
				out[s.name+" "+r.message.ID] = fmt.Sprint(r.reply, r.err, c.rdb.Get(t.Context(), key).Val())
			}
		}
		return out
	}
	want := take("alone", 0, false)
	for first := range 9 {
		if diff := cmp.Diff(want, take(fmt.Sprint("together ", first), first, true)); diff != "" {
			t.Errorf("from %d (-alone +together):\n%s", first, diff)
		}
	}
}
