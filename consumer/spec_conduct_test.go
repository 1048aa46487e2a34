package consumer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/counter"
)

// conductCase is a case of spec/v1/conduct.json.
type conductCase struct {
	Name       string                                  `json:"name"`
	Why        string                                  `json:"why"`
	Settings   conductSettings                         `json:"settings"`
	Deliveries []conductDelivery                       `json:"deliveries"`
	Handlers   map[string][]conductHandler             `json:"handlers"`
	Replies    map[string]map[string][]json.RawMessage `json:"replies,omitempty"`
	Outages    []conductOutage                         `json:"outages,omitempty"`
	Events     []conductEvent                          `json:"events,omitempty"`
	Until      int64                                   `json:"until"`
	Trace      []conductEntry                          `json:"trace"`
}

type conductSettings struct {
	MaxRetries      *int   `json:"max_retries,omitempty"`
	MaxAge          int64  `json:"max_age,omitempty"`
	Retry           string `json:"retry,omitempty"`
	Isolation       string `json:"isolation,omitempty"`
	Backoff         *int64 `json:"backoff,omitempty"`
	HandlerTimeout  int64  `json:"handler_timeout,omitempty"`
	ConsumerTimeout int64  `json:"consumer_timeout,omitempty"`
	Concurrency     int    `json:"concurrency,omitempty"`
	Drain           int64  `json:"drain,omitempty"`
	Reconnected     bool   `json:"reconnected,omitempty"`
}

type conductDelivery struct {
	At          int64     `json:"at"`
	ID          string    `json:"id"`
	NoID        bool      `json:"no_id,omitempty"`
	Redelivered bool      `json:"redelivered,omitempty"`
	Headers     specTable `json:"headers,omitempty"`
	Body        string    `json:"body,omitempty"`
	Timestamp   int64     `json:"timestamp,omitempty"`
}

type conductHandler struct {
	OK          bool   `json:"ok,omitempty"`
	Fail        string `json:"fail,omitempty"`
	Reject      string `json:"reject,omitempty"`
	RetryAfter  int64  `json:"retry_after,omitempty"`
	RetryAtMost *int   `json:"retry_at_most,omitempty"`
	Takes       int64  `json:"takes,omitempty"`
	Deaf        bool   `json:"deaf,omitempty"`
}

type conductOutage struct {
	From  int64    `json:"from"`
	To    int64    `json:"to"`
	Kind  string   `json:"kind"`
	Steps []string `json:"steps,omitempty"`
}

type conductEvent struct {
	At    int64  `json:"at"`
	Event string `json:"event"`
	ID    string `json:"id,omitempty"`
}

// conductEntry is one thing that the consumer did.
type conductEntry struct {
	ID         string `json:"id,omitempty"`
	Do         string `json:"do"`
	Token      int    `json:"token,omitempty"` // the Nth of the message
	Generation string `json:"generation,omitempty"`
	Mode       string `json:"mode,omitempty"`
	First      bool   `json:"first,omitempty"`
	Floor      int64  `json:"floor,omitempty"`
	Limit      *int   `json:"limit,omitempty"`
	Wait       *int64 `json:"wait,omitempty"`
	Cause      string `json:"cause,omitempty"`
	Reason     string `json:"reason,omitempty"`
	MaxAge     int64  `json:"max_age,omitempty"`
	AtMost     int    `json:"at_most,omitempty"`
	Later      string `json:"later,omitempty"`
	Succeeded  bool   `json:"succeeded,omitempty"`
	Number     int    `json:"number,omitempty"`
	Last       int    `json:"last,omitempty"`
	Fence      int64  `json:"fence,omitempty"`
	Repeated   bool   `json:"repeated,omitempty"` // sent again because there was no reply
	From       *int64 `json:"from,omitempty"`
	To         *int64 `json:"to,omitempty"`

	at       int64
	answered bool
}

func TestSpecConduct(t *testing.T) {
	for _, tc := range specCases[conductCase](t, "conduct.json") {
		t.Run(tc.Name, func(t *testing.T) {
			for _, wrong := range checkTrace(tc.Trace, runConduct(t, tc)) {
				t.Errorf("%s (%s): %s", tc.Name, tc.Why, wrong)
			}
		})
	}
}

// TestSpecConductRunnerFails changes one expected entry of each case. A runner that compares nothing would pass.
func TestSpecConductRunnerFails(t *testing.T) {
	for i, tc := range specCases[conductCase](t, "conduct.json") {
		got := runConduct(t, tc)
		n := i % len(tc.Trace)
		for what, change := range map[string]func(*conductEntry){
			"do": func(e *conductEntry) { e.Do += "x" }, "token": func(e *conductEntry) { e.Token++ }, "limit": func(e *conductEntry) { e.Limit = new(-1) },
			"repeated": func(e *conductEntry) { e.Repeated = !e.Repeated }, "from": func(e *conductEntry) { e.From = new(int64(1 << 40)) },
			"to": func(e *conductEntry) { e.To = new(int64(-1)) }, "succeeded": func(e *conductEntry) { e.Succeeded = !e.Succeeded },
			"id": func(e *conductEntry) { e.ID += "x" },
		} {
			wrong := slices.Clone(tc.Trace)
			change(&wrong[n])
			if len(checkTrace(wrong, got)) == 0 {
				t.Errorf("%s: %s of entry %d was changed, and no difference was found", tc.Name, what, n)
			}
		}
		if len(checkTrace(tc.Trace[1:], got)) == 0 || len(checkTrace(append(slices.Clone(tc.Trace), conductEntry{ID: "m1", Do: "ack"}), got)) == 0 {
			t.Errorf("%s: an entry more or less makes no difference", tc.Name)
		}
	}
}

// checkTrace returns what differs. The entries of each message are in their order, and those of none.
func checkTrace(want, got []conductEntry) (wrong []string) {
	wanted, seen := byMessage(want), byMessage(got)
	for id := range maps.Keys(merged(wanted, seen)) {
		for _, text := range checkMessage(wanted[id], seen[id]) {
			wrong = append(wrong, fmt.Sprintf("message %q: %s", id, text))
		}
	}
	return wrong
}

func byMessage(trace []conductEntry) map[string][]conductEntry {
	of := map[string][]conductEntry{}
	for _, e := range trace {
		of[e.ID] = append(of[e.ID], e)
	}
	return of
}

func merged(a, b map[string][]conductEntry) map[string][]conductEntry {
	out := maps.Clone(a)
	maps.Copy(out, b)
	return out
}

func checkMessage(want, got []conductEntry) (wrong []string) {
	for i := range max(len(want), len(got)) {
		if i >= len(got) || i >= len(want) {
			return append(wrong, fmt.Sprintf("%d entries, want %d: %s", len(got), len(want), shownEntries(got)))
		}
		w, g := want[i], got[i]
		if w.From != nil && g.at < *w.From || w.To != nil && g.at > *w.To {
			wrong = append(wrong, fmt.Sprintf("entry %d came at %d ms", i, g.at))
		}
		w.From, w.To = nil, nil
		if diff := cmp.Diff(w, g, cmp.FilterPath(func(p cmp.Path) bool { f := p.Last().String(); return f == ".at" || f == ".answered" }, cmp.Ignore())); diff != "" {
			wrong = append(wrong, fmt.Sprintf("entry %d: %s", i, diff))
		}
	}
	return wrong
}

func shownEntries(entries []conductEntry) string {
	out, _ := json.MarshalIndent(entries, "", "  ")
	return string(out)
}

// conductRun is one run of a case: the store, the channel and the handlers, and what they saw.
type conductRun struct {
	of       conductCase
	draw     func(e conductEntry, n int) json.RawMessage // of a schedule: what a script that has ended says next
	shift    func(ms int64) int64                        // of a schedule: moves the waits of replies
	noise    func() time.Duration                        // of a schedule: how long a reply takes
	observed bool                                        // the observer takes as long
	begin    time.Time

	mu     sync.Mutex
	trace  []conductEntry
	tokens map[string][]string // by id
	sent   map[string]int      // commands by id and step
	ran    map[string]int      // handler calls by id
	skips  []string
	over   bool
}

func runConduct(t *testing.T, tc conductCase) (trace []conductEntry) {
	t.Helper()
	return (&conductRun{of: tc}).play(t)
}

func (r *conductRun) play(t *testing.T) (trace []conductEntry) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r.begin, r.sent, r.tokens, r.ran = time.Now(), map[string]int{}, map[string][]string{}, map[string]int{}
		trace = r.run(t)
	})
	return trace
}

func (r *conductRun) now() int64 { return time.Since(r.begin).Milliseconds() }

func (r *conductRun) run(t *testing.T) []conductEntry {
	t.Helper()
	c, settler := r.consumer(t)
	set, err := settler.prepared()
	if err != nil {
		t.Fatal(err)
	}
	s := newSession(c, set)
	s.control = newControl(set, r)
	go s.control.run()
	<-s.control.first
	r.begin = time.Now()
	if r.of.Settings.Reconnected {
		s.deadLettersFrom = deadLettersFrom(2, r.begin)
	}
	deliveries, lost, cancelled := make(chan amqp.Delivery, 100), make(chan *amqp.Error, 1), make(chan string, 1)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = s.serve(ctx, &link{channel: r, deliveries: deliveries, lost: lost, cancelled: cancelled})
	}()
	events := map[string]func(string){
		"stop": func(string) { stop() }, "cancel": func(string) { cancelled <- "consumer" }, "skip": func(id string) { r.skip(id) },
		"lose": func(string) { lost <- amqp.ErrClosed },
	}
	for i, d := range r.of.Deliveries {
		time.AfterFunc(time.Duration(d.At)*time.Millisecond, func() { deliveries <- r.delivery(i, d) })
	}
	for _, e := range r.of.Events {
		time.AfterFunc(time.Duration(e.At)*time.Millisecond, func() {
			r.note(conductEntry{ID: e.ID, Do: e.Event, answered: true})
			events[e.Event](e.ID)
		})
	}
	time.Sleep(time.Duration(r.of.Until) * time.Millisecond)
	synctest.Wait()
	trace := r.end()
	stop()
	<-ended
	close(s.control.stop)
	<-s.control.done
	settler.late.close()
	time.Sleep(time.Hour) // deaf handlers return
	return trace
}

func (r *conductRun) consumer(t *testing.T) (Consumer, *Settler) {
	t.Helper()
	set := r.of.Settings
	backoff := int64(1000)
	if set.Backoff != nil {
		backoff = *set.Backoff
	}
	retries := DefaultMaxRetries
	if set.MaxRetries != nil {
		retries = *set.MaxRetries
		if retries == 0 {
			retries = -1
		}
	}
	settler := &Settler{
		Queue: "orders", Counter: r, MaxRetries: retries, MaxAge: time.Duration(set.MaxAge) * time.Millisecond, isolation: newIsolation(), late: newLate(),
		Retry:           map[string]RetryMode{"": RetryRequeue, "requeue": RetryRequeue, "in-place": RetryInPlace}[set.Retry],
		Isolation:       map[string]Isolation{"": IsolationSuspects, "suspects": IsolationSuspects, "strict": IsolationStrict, "off": IsolationOff}[set.Isolation],
		Observer:        slowObserver{r},
		Backoff:         func(int) time.Duration { return time.Duration(backoff) * time.Millisecond },
		HandlerTimeout:  time.Duration(set.HandlerTimeout) * time.Millisecond,
		ConsumerTimeout: time.Duration(set.ConsumerTimeout) * time.Millisecond,
	}
	c := Consumer{Queue: "orders", Counter: r, Handler: r.handle, Concurrency: set.Concurrency, AckEach: true, DrainTimeout: time.Duration(set.Drain) * time.Millisecond}
	if set.Drain == 0 {
		c.DrainTimeout = -1
	}
	return c.withDefaults(), settler
}

func (r *conductRun) delivery(i int, d conductDelivery) amqp.Delivery {
	out := amqp.Delivery{Acknowledger: conductChannel{r, d.ID}, DeliveryTag: uint64(i + 1), MessageId: d.ID, Redelivered: d.Redelivered, Headers: amqp.Table(d.Headers), Body: []byte(d.Body)}
	if d.Timestamp > 0 {
		out.Timestamp = time.Unix(d.Timestamp, 0)
	}
	if d.NoID {
		out.MessageId = ""
	}
	return out
}

func (r *conductRun) end() []conductEntry {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over = true
	return r.trace
}

// note adds an entry, unless it is the repetition of one that was not answered. It returns the entry's index.
func (r *conductRun) note(e conductEntry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return
	}
	e.at = r.now()
	for i, before := range slices.Backward(r.trace) {
		if before.ID != e.ID {
			continue
		}
		same := before
		same.Repeated, same.at, same.answered = false, e.at, e.answered
		if !before.answered && cmp.Equal(same, e, cmp.AllowUnexported(conductEntry{})) {
			r.trace[i].Repeated, r.trace[i].answered = true, e.answered
			return
		}
		break
	}
	r.trace = append(r.trace, e)
}

// number says that a token is the Nth of a message. No two messages share one.
func (r *conductRun) number(id, token string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	for other, tokens := range r.tokens {
		if other != id && slices.Contains(tokens, token) {
			panic(token + " is the token of two messages")
		}
	}
	n := slices.Index(r.tokens[id], token)
	if n < 0 {
		n, r.tokens[id] = len(r.tokens[id]), append(r.tokens[id], token)
	}
	return n + 1
}

var errConduct = errors.New("connection reset")

// answer is the scripted reply to a command.
func (r *conductRun) answer(ctx context.Context, e conductEntry) (counter.Reply, error) {
	kind, script := r.outage(e.Do), json.RawMessage(nil)
	if kind == "" {
		script = r.next(e)
	}
	if kind != "" || json.Unmarshal(script, &kind) == nil {
		r.note(e)
		switch kind {
		case "lost":
			<-ctx.Done()
			return counter.Reply{}, ctx.Err()
		case "refused":
			return counter.Reply{}, fmt.Errorf("step: %w", counter.ErrForeign)
		}
		return counter.Reply{}, errConduct
	}
	var reply struct {
		Verdict                         string
		Failures, Crashes, Limit, Fence int64
		Wait                            int64
		Cause, Reason                   string
	}
	if err := json.Unmarshal(script, &reply); err != nil {
		panic(err)
	}
	if r.shift != nil && reply.Wait > 0 {
		reply.Wait = r.shift(reply.Wait)
	}
	e.answered = true
	r.note(e)
	r.dawdle()
	verdicts := map[string]counter.Verdict{
		"RUN": counter.VerdictRun, "WAIT": counter.VerdictWait, "SUSPECT": counter.VerdictSuspect, "REQUEUE": counter.VerdictRequeue, "EXHAUSTED": counter.VerdictExhausted,
		"STALE": counter.VerdictStale,
	}
	return counter.Reply{
		Verdict: verdicts[reply.Verdict], Failures: int(reply.Failures), Crashes: int(reply.Crashes), Limit: int(reply.Limit), Fence: reply.Fence,
		Wait: time.Duration(reply.Wait) * time.Millisecond, Cause: counter.Cause(reply.Cause), Reason: reply.Reason,
	}, nil
}

// dawdle lets others go first, where the case does not say who does.
func (r *conductRun) dawdle() {
	if r.noise != nil {
		time.Sleep(r.noise())
	}
}

type slowObserver struct{ *conductRun }

func (o slowObserver) Observe(context.Context, Event) {
	if o.observed {
		o.dawdle()
	}
}

func (r *conductRun) outage(step string) string {
	for _, o := range r.of.Outages {
		if now := r.now(); now >= o.From && now < o.To && (len(o.Steps) == 0 || slices.Contains(o.Steps, step)) {
			return o.Kind
		}
	}
	return ""
}

func (r *conductRun) next(e conductEntry) json.RawMessage {
	r.mu.Lock()
	defer r.mu.Unlock()
	script := r.of.Replies[e.ID][e.Do]
	n := r.sent[e.ID+" "+e.Do]
	r.sent[e.ID+" "+e.Do] = n + 1
	if r.draw != nil && n == len(script) {
		script = append(script, r.draw(e, n))
		r.of.Replies[e.ID][e.Do] = script
	}
	if len(script) == 0 {
		if e.Do == "END" {
			return json.RawMessage(`{"verdict": "ENDED"}`)
		}
		return json.RawMessage(`"unexpected"`)
	}
	return script[min(n, len(script)-1)]
}

func (r *conductRun) entry(do string, a counter.Attempt) conductEntry {
	return conductEntry{ID: a.ID, Do: do, Token: r.number(a.ID, a.Token), Generation: a.Generation, First: a.First && do != "END", Floor: a.Floor}
}

func (r *conductRun) Start(ctx context.Context, a counter.Attempt, mode counter.Mode, limit int) (counter.Reply, error) {
	e := r.entry("START", a)
	e.Mode, e.Limit, e.MaxAge, e.Later = mode.String(), &limit, a.MaxAge.Milliseconds(), a.Later.String()
	return r.answer(ctx, e)
}

func (r *conductRun) Fail(ctx context.Context, a counter.Attempt, f counter.Failure) (counter.Reply, error) {
	e := r.entry("FAIL", a)
	wait := f.Wait.Milliseconds()
	e.Limit, e.Wait, e.Cause, e.Floor = &f.Limit, &wait, string(f.Cause), 0
	e.MaxAge, e.AtMost, e.Later = a.MaxAge.Milliseconds(), f.AtMost, a.Later.String()
	if e.Cause != "timed-out" {
		e.Reason = f.Reason
	}
	return r.answer(ctx, e)
}

func (r *conductRun) End(ctx context.Context, a counter.Attempt, succeeded bool) error {
	e := r.entry("END", a)
	e.Succeeded, e.Floor = succeeded, 0
	_, err := r.answer(ctx, e)
	return err
}

func (r *conductRun) Control(context.Context, string, string, counter.Reader) (counter.Control, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := counter.NewMemory(nil)
	for _, id := range r.skips {
		of := counter.Message{VHost: "/", Queue: "orders", ID: id}
		a := counter.Attempt{Message: of, Token: "a"}
		if _, err := m.Fail(context.Background(), a, counter.Failure{Limit: 9}); err != nil {
			return counter.Control{}, err
		}
		if err := m.Skip(context.Background(), of, counter.Note{Why: "test"}); err != nil {
			return counter.Control{}, err
		}
	}
	return m.Control(context.Background(), "/", "orders", counter.Reader{Token: "r"})
}

func (r *conductRun) skip(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.skips = append(r.skips, id)
}

func (r *conductRun) handle(ctx context.Context, d amqp.Delivery) error {
	id := r.of.Deliveries[d.DeliveryTag-1].ID
	a, _ := AttemptFrom(ctx)
	e := conductEntry{ID: id, Do: "handler", Number: a.Number, Last: a.Last, Fence: a.Fence, answered: true}
	if d.MessageId != "" {
		e.Token = r.number(id, a.Token)
	}
	r.note(e)
	r.mu.Lock()
	script := r.of.Handlers[id]
	h := script[min(r.ran[id], len(script)-1)]
	r.ran[id]++
	r.mu.Unlock()
	done := ctx.Done()
	if h.Deaf {
		done = nil
	}
	select {
	case <-time.After(time.Duration(h.Takes) * time.Millisecond):
	case <-done:
		return errors.New("cancelled")
	}
	return h.result()
}

func (h conductHandler) result() error {
	if h.OK {
		return nil
	}
	if h.Reject != "" {
		return Reject(errors.New(h.Reject))
	}
	err := errors.New(h.Fail)
	if h.RetryAfter > 0 {
		err = RetryAfter(err, time.Duration(h.RetryAfter)*time.Millisecond)
	}
	if h.RetryAtMost != nil {
		err = RetryAtMost(err, *h.RetryAtMost)
	}
	return err
}

func (r *conductRun) isLost() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.trace, func(e conductEntry) bool { return e.Do == "lose" || e.Do == "close" })
}

// As a channel:

func (r *conductRun) Cancel(string, bool) error { return nil }

func (r *conductRun) Consume(string, string, bool, bool, bool, bool, amqp.Table) (<-chan amqp.Delivery, error) {
	return make(chan amqp.Delivery), nil
}

func (r *conductRun) Close() error {
	if !r.isLost() {
		r.note(conductEntry{Do: "close", answered: true})
	}
	return nil
}

type conductChannel struct {
	*conductRun

	id string
}

func (c conductChannel) settle(what string) error {
	if c.isLost() {
		return amqp.ErrClosed
	}
	c.note(conductEntry{ID: c.id, Do: what, answered: true})
	return nil
}

func (c conductChannel) Ack(uint64, bool) error { return c.settle("ack") }

func (c conductChannel) Nack(_ uint64, _, requeue bool) error {
	if requeue {
		return c.settle("requeue")
	}
	return c.settle("dead-letter")
}

func (c conductChannel) Reject(uint64, bool) error { return c.settle("reject") }
