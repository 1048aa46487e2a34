package console

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/alicebob/miniredis/v2"
	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/redis/go-redis/v9"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/deadletter"
)

// panicking is a hook of a store's client.
type panicking struct {
	on atomic.Bool
}

func (p *panicking) DialHook(next redis.DialHook) redis.DialHook { return next }

func (p *panicking) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if p.on.Load() {
			panic("the store's hook")
		}
		return next(ctx, cmd)
	}
}

func (p *panicking) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if p.on.Load() {
			panic("the store's hook")
		}
		return next(ctx, cmds)
	}
}

// journal keeps the log.
type journal struct {
	mu   sync.Mutex
	text strings.Builder
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

// TestPanicsAreRecovered has the store's client panic in whatever goroutine asks it. The program must survive each page
// and a job.
func TestPanicsAreRecovered(t *testing.T) {
	server := miniredis.RunT(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), MaxRetries: -1, ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = client.Close() })
	hook, logged := &panicking{}, &journal{}
	client.AddHook(hook)
	o := Options{
		Store: counter.New(client, nil), Management: "http://localhost:15672", Allow: AllVerbs(),
		Logger: slog.New(slog.NewTextHandler(logged, nil)),
		Dial:   func(context.Context) (*amqp.Connection, error) { return nil, errors.New("no broker in this test") },
	}.withDefaults()
	need(t, o.validate())
	b := &fakeBroker{status: hostileStatus(), dead: &fakeLetters{all: []*deadletter.Message{{ID: "m-1"}, {ID: "m-2"}},
		gate: make(chan struct{})}}
	f := &fixture{newConsole(o, b, endless), b, server}
	t.Cleanup(func() { _ = f.Close() })

	answers(t, f.post(query("replay"), url.Values{"why": {"fixed"}, "count": {"2"}}), http.StatusSeeOther)
	b.dead.gate <- struct{}{} // its beginning is in the audit
	hook.on.Store(true)
	b.dead.gate <- struct{}{} // its end enters the audit, which panics
	f.jobs.wait()
	if s := f.jobs.of("orders").State(); s.Ended.IsZero() || s.OK || !strings.Contains(s.Result, errPanicked.Error()) {
		t.Errorf("the job: %+v", s)
	}
	for _, path := range []string{query("dead"), query("lanes"), query("audit"), query("queue")} {
		if w := f.get(path); w.Code != http.StatusInternalServerError || !strings.Contains(w.Body.String(),
			errPanicked.Error()) {
			t.Errorf("%s: %d: %s", path, w.Code, w.Body)
		}
	}
	if !strings.Contains(logged.String(), "the store's hook") || !strings.Contains(logged.String(), "guard_test.go") {
		t.Errorf("the log lacks the panic or its stack: %s", logged)
	}
	b.panics.Store(true)
	f.get("/queue?queue=bookings") // not read before
	hook.on.Store(false)
	b.panics.Store(false)
	for _, path := range []string{query("dead"), "/queue?queue=bookings"} {
		if w := f.get(path); w.Code != http.StatusOK || strings.Contains(w.Body.String(), errPanicked.Error()) {
			t.Errorf("%s after that: %d: %s", path, w.Code, w.Body)
		}
	}
}
