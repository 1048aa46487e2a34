package counter

import (
	"context"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/strikesmq/strikes/internal/proxy"
)

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
// near.
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
		if err := failWithin(t, c, tc.within, i); (err != nil) != tc.mute {
			t.Errorf("%s: %v", tc.name, err)
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

// TestLoneCallerKeepsItsDeadline: a store that falls silent keeps a caller that sends its own step no longer than any
// other.
func TestLoneCallerKeepsItsDeadline(t *testing.T) {
	c, f, p := aloneOn(t)
	f.releaseAll()
	need(t, failWithin(t, c, brief, 0))
	quiet(c)
	p.Mute(true)
	began := time.Now()
	if err := failWithin(t, c, 50*time.Millisecond, 1); err == nil {
		t.Error("a step without a reply was taken")
	}
	if <-f.begun; !<-f.begun {
		t.Error("the caller did not send its step itself")
	}
	if took := time.Since(began); took > 10*time.Second { // the read's own timeout is 20 s
		t.Errorf("returned after %v", took)
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
