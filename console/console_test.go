package console

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	amqp "github.com/rabbitmq/amqp091-go"
	"go.uber.org/goleak"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/deadletter"
	"github.com/strikesmq/strikes/doctor"
	"github.com/strikesmq/strikes/internal/inspect"
	"github.com/strikesmq/strikes/internal/servertest"
	"github.com/strikesmq/strikes/ops"
)

var need = servertest.Need

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeBroker is a broker with one queue.
type fakeBroker struct {
	mu      sync.Mutex
	status  ops.Status
	found   []inspect.Finding
	alarms  []inspect.Finding
	examine chan struct{} // Examine of all queues waits until it is closed
	hangs   func()        // Examine calls it, unless it is nil
	dead    *fakeLetters
	shared  bool              // other queues share the dead-letter queue
	deletes map[string]string // by queue: how the broker deletes it without consumers

	away   atomic.Pointer[error] // why the broker does not answer; nil if it does
	panics atomic.Bool           // Collect does
	closed atomic.Int64          // how often it or its collector was closed
	unseen atomic.Pointer[error] // why one more queue could not be examined; nil: there is none

	storeAway atomic.Pointer[error]         // why All lacks the store's half; nil: it has both
	report    atomic.Pointer[doctor.Report] // of the broker; nil: none
}

// err is read while the console takes its samples.
func (b *fakeBroker) err() error {
	if err := b.away.Load(); err != nil {
		return *err
	}
	return nil
}

func (b *fakeBroker) All(context.Context) (ops.Overview, error) {
	seen := b.seen()
	if err := b.storeAway.Load(); err != nil {
		s := ops.Status{Queue: seen.Queue, Ready: seen.Ready, Consumers: seen.Consumers}
		return ops.Overview{Time: seen.Time, Queues: []ops.Status{s}, Broker: b.err(), Store: *err}, nil
	}
	s := ops.Status{Queue: seen.Queue, Ready: seen.Ready, Consumers: seen.Consumers, Dead: seen.Dead, StoreSeen: true,
		Retrying: seen.Retrying, Breaker: seen.Breaker, Paused: seen.Paused}
	if len(seen.Blocking) > 0 {
		s.Head, s.Blocked = &seen.Blocking[0], seen.Time.Sub(seen.Blocking[0].Since)
	}
	err := b.err()
	if err != nil {
		s.Ready, s.Consumers, s.Dead.Holds = nil, nil, nil
	}
	return ops.Overview{Time: seen.Time, Queues: []ops.Status{s}, Alarms: b.alarms, Broker: err}, nil
}

// seen is read while the console takes its samples, and change writes it, so both lock the mutex.
func (b *fakeBroker) seen() ops.Status {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.status
}

func (b *fakeBroker) change(f func(*ops.Status)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f(&b.status)
}

func (b *fakeBroker) Collect(context.Context, ops.Question) (ops.Status, error) {
	if b.panics.Load() {
		panic("the store's hook")
	}
	return b.seen(), b.err()
}
func (b *fakeBroker) DeliveryLimit(context.Context, inspect.Need) ([]inspect.Finding, error) {
	return nil, b.err()
}
func (b *fakeBroker) Unconsumed(_ context.Context, queue string) (how string, err error) {
	return b.deletes[queue], b.err()
}
func (b *fakeBroker) Examine(ctx context.Context, queue string, show func(doctor.Report)) error {
	if queue == "" {
		select {
		case <-b.examine:
		case <-ctx.Done():
		}
	}
	if b.hangs != nil {
		b.hangs()
	}
	if err := b.unseen.Load(); err != nil {
		show(doctor.Report{Subject: "queue", Name: "ledger", Err: *err})
	}
	show(doctor.Report{Subject: "queue", Name: "orders", Findings: b.found})
	if r := b.report.Load(); r != nil {
		show(*r)
	}
	return b.err()
}
func (b *fakeBroker) DeadLetters(_ context.Context, _ string, with deadletter.Queue) (deadLetters, string, error) {
	return fakeQueue{b.dead, with}, "orders.dlq", b.err()
}
func (b *fakeBroker) Alone(context.Context, string) bool { return !b.shared }
func (b *fakeBroker) Collector() collector               { return b }
func (b *fakeBroker) Close()                             { b.closed.Add(1) }

// fakeLetters are dead letters in memory.
type fakeLetters struct {
	all     []*deadletter.Message
	gate    chan struct{} // if not nil, Replay waits for it before each message
	taken   []string      // the queues of the replayed ones
	browsed atomic.Int64
	refuses error // of Allows
}

// fakeQueue is a queue of them.
type fakeQueue struct {
	*fakeLetters
	with deadletter.Queue
}

func (l *fakeLetters) Browse(_ context.Context, f deadletter.Filter) iter.Seq2[*deadletter.Message, error] {
	l.browsed.Add(1)
	return func(yield func(*deadletter.Message, error) bool) {
		for _, m := range l.all {
			if f.Match(m, time.Now()) && !yield(m, nil) {
				return
			}
		}
	}
}

func (l *fakeLetters) Allows(deadletter.Filter) error { return l.refuses }

func (l fakeQueue) Replay(ctx context.Context, r deadletter.Replay) (done deadletter.Result, err error) {
	for _, m := range l.all {
		if !r.Filter.Match(m, time.Now()) {
			continue
		}
		if done.Done == 0 && r.OnBegin != nil {
			if err := r.OnBegin(); err != nil {
				return done, err
			}
		}
		if l.gate != nil {
			select {
			case <-l.gate:
			case <-ctx.Done():
				return done, ctx.Err()
			}
		}
		done.Done++
		l.taken = append(l.taken, m.Queue)
		l.with.Progress(deadletter.Progress{Doing: "replaying", Done: done.Done, Of: len(l.all)})
		if done.Done == r.Max {
			break
		}
	}
	return done, nil
}

func (l *fakeLetters) Drop(_ context.Context, f deadletter.Filter, _ int, keep func([]*deadletter.Message) error) (
	done deadletter.Result, err error) {
	for _, m := range l.all {
		if f.Match(m, time.Now()) {
			if err := keep([]*deadletter.Message{m}); err != nil {
				return done, err
			}
			done.Done++
		}
	}
	return done, nil
}

const (
	host = "http://localhost"
	// hostile is a text that an attacker may put into every string of a message.
	hostile = "<script>alert(1)</script>\"'&\x00\x1b[31m\u202e\xff"
)

func hostileStatus() ops.Status {
	now := time.Now().UTC()
	holds := 2
	return ops.Status{
		Time: now, VHost: "/", Queue: "orders", Ready: new(3), Consumers: new(1), Retrying: 1,
		Blocking: []ops.Message{{ID: hostile, State: ops.Ready, Attempt: 2, Limit: 4, Since: now.Add(-12 * time.Minute),
			Failures: 1, LastError: hostile, Consumer: hostile}},
		Dead: ops.DeadLetters{Count: 2, Still: 2, Since: now, Queue: "orders.dlq", Holds: &holds,
			Reasons: []*ops.Group{{Reason: hostile, Count: 2}}},
	}
}

// fixture is a console on a store in memory.
type fixture struct {
	*Console
	broker *fakeBroker
	redis  *miniredis.Miniredis
}

// endless lets a page wait for every answer: a test compares the whole page, however busy the machine is.
var endless = patience{paint: time.Hour, groups: time.Hour, answer: time.Hour, asked: time.Hour}

func newFixture(t *testing.T, o Options, prepare ...func(*fakeBroker)) *fixture {
	t.Helper()
	server := miniredis.RunT(t)
	store, err := counter.Dial("redis://"+server.Addr()+"?read_timeout=1m&write_timeout=1m&dial_timeout=1m", nil)
	need(t, err)
	t.Cleanup(func() { _ = store.Close() })
	o.Store, o.Management = store, "http://localhost:15672"
	o.Dial = func(context.Context) (*amqp.Connection, error) { return nil, errors.New("no broker in this test") }
	o = o.withDefaults()
	need(t, o.validate())
	b := &fakeBroker{status: hostileStatus(), examine: make(chan struct{}),
		dead: &fakeLetters{}}
	for _, change := range prepare { // before the console takes its first samples
		change(b)
	}
	c := newConsole(o, b, endless)
	t.Cleanup(func() { _ = c.Close() })
	return &fixture{c, b, server}
}

// fail counts a failed attempt of a message, so that the store has a record.
func (f *fixture) fail(t *testing.T, id string) {
	t.Helper()
	a := counter.Attempt{Message: counter.Message{VHost: "/", Queue: "orders", ID: id}, Token: "t"}
	if _, err := f.opts.Store.Fail(t.Context(), a, counter.Failure{Limit: 4, Reason: hostile}); err != nil {
		t.Fatal(err)
	}
}

func (f *fixture) get(path string, change ...func(*http.Request)) *httptest.ResponseRecorder {
	return f.send(http.MethodGet, path, nil, change...)
}

func (f *fixture) post(path string, form url.Values, change ...func(*http.Request)) *httptest.ResponseRecorder {
	return f.send(http.MethodPost, path, form, change...)
}

func (f *fixture) send(method, path string, form url.Values, change ...func(*http.Request)) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, host+path, strings.NewReader(form.Encode()))
	r.RemoteAddr = "127.0.0.1:1234"
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for _, change := range change {
		change(r)
	}
	w := httptest.NewRecorder()
	f.ServeHTTP(w, r)
	return w
}

// query is an address with a queue and more names and values.
func query(page string, more ...string) string {
	return "/" + link(page, append([]string{"queue", "orders"}, more...)...)
}

// follow requests where an answer leads.
func (f *fixture) follow(t *testing.T, w *httptest.ResponseRecorder) string {
	t.Helper()
	if w.Code != http.StatusSeeOther {
		t.Fatalf("%d, want a redirect: %s", w.Code, w.Body)
	}
	next := f.get("/" + w.Header().Get("Location"))
	if next.Code != http.StatusOK {
		t.Fatalf("%s: %d: %s", w.Header().Get("Location"), next.Code, next.Body)
	}
	return next.Body.String()
}

func header(name, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set(name, value) }
}

// says reports the parts that a page lacks.
func says(t *testing.T, page string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(page, part) {
			t.Errorf("the page does not say %q: %s", part, page)
		}
	}
}

// answers reports an answer with another status, or that lacks a part.
func answers(t *testing.T, w *httptest.ResponseRecorder, code int, parts ...string) {
	t.Helper()
	if w.Code != code {
		t.Errorf("status %d, want %d", w.Code, code)
	}
	says(t, w.Body.String(), parts...)
}

// dropping are options of a console that drops. Its file names each message and its key.
func dropping(t *testing.T) Options {
	t.Helper()
	return Options{Allow: AllVerbs(), DropDir: t.TempDir(), Encode: func(m amqp.Publishing, key string) ([]byte, error) {
		return fmt.Appendf(nil, "%s of %q", m.MessageId, key), nil
	}}
}

// dropped returns the only file of a console that drops, and its content.
func (f *fixture) dropped(t *testing.T) (name, text string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(f.opts.DropDir, "orders-*.ndjson"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	content, err := os.ReadFile(files[0])
	need(t, err)
	return files[0], string(content)
}
