package consumer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/consumer/internal/control"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/counter/rules"
)

// conductRun is one run of a case: the store, the channel and the handlers, and the trace of their calls.
type conductRun struct {
	Counter   // for the calls that no case scripts
	of        conductCase
	draw      func(e conductEntry, n int) json.RawMessage // of a schedule: the next reply of a script that has ended
	shift     func(ms int64) int64                        // of a schedule: moves the waits of replies
	noise     func() time.Duration                        // of a schedule: how long a reply takes
	observed  bool                                        // the observer takes as long
	isolation *isolation
	late      *late
	begin     time.Time

	mu     sync.Mutex
	trace  []conductEntry
	tokens map[string][]string // by id
	sent   map[string]int      // commands by id and step
	ran    map[string]int      // handler calls by id
	skips  []string
	paused bool
	state  counter.BreakerState
	permit []int64      // when permits are given
	wire   *conductWire // of the session that consumes; nil: none has yet
	closed bool         // it has no channel any more
	over   bool
}

// conductWire is the broker's side of a link.
type conductWire struct {
	deliveries chan amqp.Delivery
	beyond     chan amqp.Delivery // of the second consumer; a cancel closes it
	fetched    bool               // there was a second consumer
	lost       chan *amqp.Error
	cancelled  chan string
}

func runConduct(t *testing.T, tc conductCase) (trace []conductEntry) {
	t.Helper()
	return (&conductRun{of: tc}).play(t)
}

func (r *conductRun) play(t *testing.T) (trace []conductEntry) {
	t.Helper()
	r.Counter = counter.NewMemory(nil)
	synctest.Test(t, func(t *testing.T) {
		r.begin, r.sent, r.tokens, r.ran = time.Now(), map[string]int{}, map[string][]string{}, map[string]int{}
		trace = r.run(t)
	})
	return trace
}

func (r *conductRun) now() int64 { return time.Since(r.begin).Milliseconds() }

func (r *conductRun) run(t *testing.T) []conductEntry {
	t.Helper()
	c := r.consumer()
	r.isolation, r.late = newIsolation(), newLate()
	r.paused = r.of.Settings.Paused
	k := controlOn(newSession(c, "/", nil), r)
	k.Start()
	<-k.First()
	r.begin = time.Now()
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); r.consume(ctx, c, k) }()
	synctest.Wait()
	events := map[string]func(string){
		"stop": func(string) { stop() }, "cancel": func(string) {
			r.broker().cancelled <- "consumer"
		}, "skip": func(id string) { r.skip(id) },
		"lose": func(string) {
			r.lose()
			r.broker().lost <- amqp.ErrClosed
		}, "pause": func(string) { r.pause(true) }, "resume": func(string) { r.pause(false) },
	}
	for i, d := range r.of.Deliveries {
		time.AfterFunc(time.Duration(d.At)*time.Millisecond, func() { r.deliver(i, d) })
	}
	for _, e := range r.of.Events {
		if e.Event == "permit" {
			r.mu.Lock()
			r.permit = append(r.permit, e.At)
			r.mu.Unlock()
		}
		time.AfterFunc(time.Duration(e.At)*time.Millisecond, func() {
			if change := breakerEvents[e.Event]; change != nil {
				r.mu.Lock()
				defer r.mu.Unlock()
				change(&r.state)
				return
			}
			r.note(conductEntry{ID: e.ID, Do: e.Event, answered: true})
			events[e.Event](e.ID)
		})
	}
	time.Sleep(time.Duration(r.of.Until) * time.Millisecond)
	synctest.Wait()
	trace := r.end()
	stop()
	<-ended
	k.Stop()
	r.late.close()
	time.Sleep(time.Hour) // deaf handlers return
	return trace
}

// breakerEvents are not in the trace.
var breakerEvents = map[string]func(*counter.BreakerState){
	"doubt":  func(b *counter.BreakerState) { b.Doubt = time.Now() },
	"opened": func(b *counter.BreakerState) { b.Open = time.Now() },
	"closed": func(b *counter.BreakerState) { b.Doubt, b.Open, b.Closed = time.Time{}, time.Time{}, time.Now() },
	"others": func(b *counter.BreakerState) { b.Success = time.Now() },
	"permit": func(*counter.BreakerState) {},
}

// consume consumes as Run does on one connection.
func (r *conductRun) consume(ctx context.Context, c Consumer, k *control.Control) {
	for {
		s := newSession(c, "/", nil)
		s.isolation, s.late = r.isolation, r.late
		s.workers, s.slots = newWorkers(c.Concurrency, func() { s.acks.Wake() }), newSlots(c.Concurrency)
		s.workers.asked = r.dawdle
		s.lacking = func() {} // a tag is the number of a delivery in its case, however late it comes
		find[*controlRoom](s.rooms).control = k
		if r.of.Settings.Reconnected {
			s.deadLettersFrom = deadLettersFrom(2, r.begin, time.Time{})
		}
		if err := find[*laneRoom](s.rooms).check(ctx, nil); err != nil {
			r.note(conductEntry{Do: "refuse", answered: true})
			return
		}
		paused, err := s.amidRooms(ctx, &amqp.Connection{}, func(ctx context.Context) error {
			return s.serve(ctx, r.open())
		})
		if !paused || err != nil || ctx.Err() != nil {
			return
		}
	}
}

// open begins a session on the broker. The trace has those that follow a pause.
func (r *conductRun) open() *link {
	w := &conductWire{deliveries: make(chan amqp.Delivery, 100), beyond: make(chan amqp.Delivery, 100),
		lost: make(chan *amqp.Error, 1), cancelled: make(chan string, 1)}
	r.mu.Lock()
	again := r.wire != nil || r.of.Settings.Paused
	r.wire, r.closed = w, false
	r.mu.Unlock()
	if again {
		r.note(conductEntry{Do: "consume", answered: true})
	}
	return &link{channel: r, deliveries: w.deliveries, closed: w.lost, cancelled: w.cancelled}
}

func (r *conductRun) broker() *conductWire {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.wire
}

// deliver delivers to the session that consumes, if there is one.
func (r *conductRun) deliver(i int, d conductDelivery) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch w := r.wire; {
	case w == nil:
	case d.Beyond && !w.fetched:
		w.beyond <- r.delivery(i, d)
	default:
		w.deliveries <- r.delivery(i, d)
	}
}

func (r *conductRun) consumer() Consumer {
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
	c := Consumer{
		Queue: "orders", Handler: r.handle, Counter: r, MaxRetries: retries,
		MaxAge:  time.Duration(set.MaxAge) * time.Millisecond,
		Breaker: set.Breaker, Patience: time.Duration(set.Patience) * time.Millisecond,
		Concurrency: set.Concurrency, Prefetch: 1, DrainTimeout: time.Duration(set.Drain) * time.Millisecond,
		Retry: map[string]RetryMode{"": RetryRequeue, "requeue": RetryRequeue, "in-place": RetryInPlace}[set.Retry],
		Isolation: map[string]Isolation{"": IsolationSuspects, "suspects": IsolationSuspects,
			"off": IsolationOff}[set.Isolation],
		Observer:        slowObserver{r},
		Backoff:         func(int) time.Duration { return time.Duration(backoff) * time.Millisecond },
		HandlerTimeout:  time.Duration(set.HandlerTimeout) * time.Millisecond,
		ConsumerTimeout: time.Duration(set.ConsumerTimeout) * time.Millisecond,
	}
	if set.Drain == 0 {
		c.DrainTimeout = -1
	}
	return c.withDefaults()
}

// firstTag is that of the first delivery. Tag 1 is missing, so each delivery is settled on its own.
const firstTag = 2

func (r *conductRun) delivery(i int, d conductDelivery) amqp.Delivery {
	out := amqp.Delivery{Acknowledger: conductChannel{r, d.ID}, DeliveryTag: uint64(firstTag + i), MessageId: d.ID,
		Redelivered: d.Redelivered, Headers: amqp.Table(d.Headers), Body: []byte(d.Body)}
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
		same.Repeated, same.at, same.answered, same.Progress = false, e.at, e.answered, e.Progress
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
		Code                            string
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
	replyCodes := map[string]rules.ReplyCode{
		"RUN": rules.ReplyRun, "WAIT": rules.ReplyWait, "SUSPECT": rules.ReplySuspect,
		"REQUEUE": rules.ReplyRequeue, "EXHAUSTED": rules.ReplyExhausted,
		"UNCOUNTED": rules.ReplyUncounted, "SUPERSEDED": rules.ReplySuperseded,
		"BEGUN": rules.ReplyBegun, "GONE": rules.ReplyGone,
	}
	return counter.Reply{
		Code: replyCodes[reply.Code], Failures: int(reply.Failures), Crashes: int(reply.Crashes), Limit: int(reply.Limit),
		Fence: reply.Fence,
		Wait:  time.Duration(reply.Wait) * time.Millisecond, Cause: counter.Cause(reply.Cause), Reason: reply.Reason,
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
		switch e.Do {
		case "BEGUN":
			return json.RawMessage(`{"code": "BEGUN"}`)
		case "END":
			return json.RawMessage(`{"code": "ENDED"}`)
		}
		return json.RawMessage(`"unexpected"`)
	}
	return script[min(n, len(script)-1)]
}

func (r *conductRun) entry(do string, a counter.Attempt) conductEntry {
	e := conductEntry{ID: a.ID, Do: do, Token: r.number(a.ID, a.Token), Generation: a.Generation, First: a.First &&
		do != "END", Fence: a.Fence}
	if p := a.Progress; p.Breaker > 0 && (do == "START" || do == "FAIL") {
		e.Progress = &conductProgress{Breaker: p.Breaker, Patience: p.Patience.Milliseconds(), Began: r.since(p.Began),
			Ended: r.since(p.Ended), Failing: p.Failing}
		if do == "FAIL" {
			e.Progress.Attempt = r.since(p.Attempt)
		}
	}
	return e
}

func (r *conductRun) since(at time.Time) *int64 {
	if at.IsZero() {
		return nil
	}
	return new(at.Sub(r.begin).Milliseconds())
}

// AskBreaker returns the breaker of the case's events. Of the permits that are due it gives one.
func (r *conductRun) AskBreaker(ctx context.Context, _, _ string, a rules.Progress) (counter.BreakerState, error) {
	if kind := r.outage("ASK"); kind == "lost" {
		<-ctx.Done()
		return counter.BreakerState{}, ctx.Err()
	} else if kind != "" {
		return counter.BreakerState{}, errConduct
	}
	r.dawdle()
	r.mu.Lock()
	defer r.mu.Unlock()
	b, now := r.state, r.now()
	b.Permitted = a.Wants && !b.Open.IsZero() && len(r.permit) > 0 && r.permit[0] <= now
	for b.Permitted && len(r.permit) > 0 && r.permit[0] <= now {
		r.permit = r.permit[1:]
	}
	b.Now, b.Next = time.Now(), time.Now().Add(3*time.Second)
	if len(r.permit) > 0 {
		b.Next = r.begin.Add(time.Duration(r.permit[0]) * time.Millisecond)
	}
	return b, nil
}

func (r *conductRun) Start(ctx context.Context, a counter.Attempt, mode rules.Mode, limit int) (counter.Reply,
	error) {
	e := r.entry("START", a)
	e.Mode, e.Limit, e.MaxAge, e.Delay = mode.String(), &limit, a.MaxAge.Milliseconds(), a.Delay.String()
	return r.answer(ctx, e)
}

func (r *conductRun) Begun(ctx context.Context, a counter.Attempt) (counter.Reply, error) {
	e := r.entry("BEGUN", a)
	e.First, e.Fence = false, 0
	return r.answer(ctx, e)
}

func (r *conductRun) Fail(ctx context.Context, a counter.Attempt, f counter.Failure) (counter.Reply, error) {
	e := r.entry("FAIL", a)
	wait := f.Wait.Milliseconds()
	e.Limit, e.Wait, e.Cause, e.Fence = &f.Limit, &wait, string(f.Cause), 0
	e.MaxAge, e.AtMost, e.Delay = a.MaxAge.Milliseconds(), f.AtMost, a.Delay.String()
	if e.Cause != "timed-out" {
		e.Reason = f.Reason
	}
	return r.answer(ctx, e)
}

func (r *conductRun) End(ctx context.Context, a counter.Attempt, succeeded bool) error {
	e := r.entry("END", a)
	e.Succeeded, e.Fence = succeeded, 0
	return errOf(r.answer(ctx, e))
}

func (r *conductRun) Control(context.Context, string, string, counter.Reader) (counter.Control, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := counter.NewMemory(nil)
	if r.paused {
		if err := m.Pause(context.Background(), "/", "orders", counter.Note{Why: "test"}); err != nil {
			return counter.Control{}, err
		}
	}
	for _, id := range r.skips {
		of := counter.Message{VHost: "/", Queue: "orders", ID: id}
		a := counter.Attempt{Message: of, Token: "a"}
		if _, err := m.Fail(context.Background(), a, counter.Failure{Limit: 9}); err != nil {
			return counter.Control{}, err
		}
		if _, err := m.Skip(context.Background(), of, counter.Note{Why: "test"}); err != nil {
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

func (r *conductRun) pause(yes bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.paused = yes
}

// BlockedLanes is for the check before a session. The other methods for lanes are not called.
func (r *conductRun) BlockedLanes(context.Context, string, string) (int, error) {
	return r.of.Settings.BlockedLanes, nil
}

func (r *conductRun) OwnLanes(context.Context, string, string, string, string) (string, error) {
	return "", errConduct
}

func (r *conductRun) NextBlocked(context.Context, string, string, counter.BlockedPage) (counter.BlockedPage, error) {
	return counter.BlockedPage{}, errConduct
}

func (r *conductRun) StepLane(context.Context, rules.LaneStep) (rules.LaneReply, error) {
	return rules.LaneReply{}, errConduct
}

func (r *conductRun) handle(ctx context.Context, d amqp.Delivery) error {
	id := r.of.Deliveries[d.DeliveryTag-firstTag].ID
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
	err := errors.New(h.Fail + h.NotCounted)
	if h.NotCounted != "" {
		err = NotCounted(err)
	}
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
	return r.closed
}

func (r *conductRun) lose() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
}

// As a channel:

func (r *conductRun) Cancel(string, bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.wire.fetched {
		close(r.wire.beyond)
		r.wire.beyond = make(chan amqp.Delivery)
	}
	return nil
}

func (r *conductRun) Qos(int, int, bool) error { return nil }

func (r *conductRun) Consume(string, string, bool, bool, bool, bool, amqp.Table) (<-chan amqp.Delivery, error) {
	r.note(conductEntry{Do: "fetch", answered: true})
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wire.fetched = true
	return r.wire.beyond, nil
}

func (r *conductRun) Close() error {
	if !r.isLost() {
		r.note(conductEntry{Do: "close", answered: true})
		r.lose()
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
