package consumer

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"go.uber.org/goleak"
	"golang.org/x/sync/semaphore"

	"github.com/strikesmq/strikes/counter"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// acks is the session's side of a delivery: it notes how it was settled.
type acks struct {
	mu   sync.Mutex
	got  []string
	fail error
}

func (a *acks) settle(what string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.fail != nil {
		return a.fail
	}
	a.got = append(a.got, what)
	return nil
}

func (a *acks) String() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return strings.Join(a.got, ", ")
}

func (a *acks) Ack(_ uint64, multiple bool) error {
	return a.settle(fmt.Sprintf("ack multiple=%v", multiple))
}
func (a *acks) Nack(_ uint64, _, requeue bool) error {
	return a.settle(fmt.Sprintf("nack requeue=%v", requeue))
}
func (a *acks) Reject(uint64, bool) error { return a.settle("reject") }

// store is a Memory that can be away, and that counts the steps it was asked for.
type store struct {
	*counter.Memory
	down  atomic.Bool
	steps atomic.Int64
}

var errDown = errors.New("store down")

func newStore() *store { return &store{Memory: counter.NewMemory(nil)} }

func (s *store) Start(ctx context.Context, a counter.Attempt, mode counter.Mode, limit int) (counter.Answer, error) {
	if s.steps.Add(1); s.down.Load() {
		return counter.Answer{}, errDown
	}
	return s.Memory.Start(ctx, a, mode, limit)
}

func (s *store) Fail(ctx context.Context, a counter.Attempt, f counter.Failure) (counter.Answer, error) {
	if s.steps.Add(1); s.down.Load() {
		return counter.Answer{}, errDown
	}
	return s.Memory.Fail(ctx, a, f)
}

func (s *store) End(ctx context.Context, a counter.Attempt, ok bool) error {
	if s.steps.Add(1); s.down.Load() {
		return errDown
	}
	return s.Memory.End(ctx, a, ok)
}

// record returns what the store keeps of message "m1", in short.
func (s *store) record(t *testing.T) string {
	t.Helper()
	records, err := s.Get(t.Context(), "/", "orders", "m1")
	if err != nil || len(records) > 1 {
		t.Fatalf("%d records, %v", len(records), err)
	}
	if len(records) == 0 {
		return "none"
	}
	r := records[0]
	return fmt.Sprintf("%q %d+%d marked %v", r.State, r.Failures, r.Crashes, r.Marker != "")
}

// bench is a Settler on a store, with a delivery of message "m1".
type bench struct {
	*Settler
	store  *store
	acks   *acks
	events *[]string
}

func newBench() bench {
	b := bench{store: newStore(), acks: &acks{}, events: &[]string{}}
	b.Settler = &Settler{
		Queue: "orders", Counter: b.store, Backoff: func(charges int) time.Duration { return time.Duration(charges) * time.Second },
		Observer: observe(func(e Event) { *b.events = append(*b.events, string(e.Decision)) }),
	}
	return b
}

type observe func(Event)

func (o observe) Observe(_ context.Context, e Event) { o(e) }

func (b bench) delivery(redelivered bool) amqp.Delivery {
	return amqp.Delivery{Acknowledger: b.acks, DeliveryTag: 1, MessageId: "m1", Redelivered: redelivered}
}

func (b bench) expect(t *testing.T, settlements, record string) {
	t.Helper()
	if got := b.acks.String(); got != settlements {
		t.Errorf("settled: %s; want %s", got, settlements)
	}
	if got := b.store.record(t); got != record {
		t.Errorf("record: %s; want %s", got, record)
	}
}

func ok(context.Context, amqp.Delivery) error { return nil }

var errBoom = errors.New("boom")

func boom(context.Context, amqp.Delivery) error { return errBoom }

func TestFirstDeliverySuccessAsksNobody(t *testing.T) {
	b := newBench()
	outcome, err := b.Handle(t.Context(), b.delivery(false), ok)
	if outcome != Acked || err != nil {
		t.Fatalf("%v, %v", outcome, err)
	}
	if n := b.store.steps.Load(); n != 0 {
		t.Errorf("the store was asked %d times", n)
	}
	b.expect(t, "ack multiple=false", "none")
}

func TestRequeueUntilTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		runs, began := 0, time.Now()
		fail := func(ctx context.Context, _ amqp.Delivery) error {
			runs++
			if a, ok := AttemptFrom(ctx); !ok || a.Number != runs || a.Last != 4 || a.Token == "" || a.Fence != int64(runs-1) {
				t.Errorf("run %d: %+v, %v", runs, a, ok)
			}
			return errBoom
		}
		for i := range 4 {
			want := Requeued
			if i == 3 {
				want = DeadLettered
			}
			if outcome, err := b.Handle(t.Context(), b.delivery(i > 0), fail); outcome != want || err != nil {
				t.Fatalf("delivery %d: %v, %v", i+1, outcome, err)
			}
		}
		b.expect(t, "nack requeue=true, nack requeue=true, nack requeue=true, nack requeue=false", `"exhausted" 4+0 marked false`)
		if waited := time.Since(began); runs != 4 || waited != 6*time.Second {
			t.Errorf("%d runs in %v; want 4, with backoffs of 1, 2 and 3 s", runs, waited)
		}
		// the last nack was lost: it is repeated without the handler
		if outcome, err := b.Handle(t.Context(), b.delivery(true), fail); outcome != DeadLettered || err != nil || runs != 4 {
			t.Errorf("%v, %v, %d runs", outcome, err, runs)
		}
	})
}

func TestInPlaceUntilTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		b.Retry = InPlace
		tokens := map[string]bool{}
		outcome, err := b.Handle(t.Context(), b.delivery(false), func(ctx context.Context, _ amqp.Delivery) error {
			a, _ := AttemptFrom(ctx)
			tokens[a.Token] = true
			if a.Number != len(tokens) {
				t.Errorf("run %d is attempt %d", len(tokens), a.Number)
			}
			return errBoom
		})
		if outcome != DeadLettered || err != nil || len(tokens) != 4 {
			t.Fatalf("%v, %v, %d runs", outcome, err, len(tokens))
		}
		b.expect(t, "nack requeue=false", `"exhausted" 4+0 marked false`)
		if got := strings.Join(*b.events, " "); got != "retry retry retry dead-letter" {
			t.Errorf("events: %s", got)
		}
	})
}

func TestSuccessAfterFailures(t *testing.T) {
	for _, mode := range []RetryMode{Requeue, InPlace} {
		synctest.Test(t, func(t *testing.T) {
			b := newBench()
			b.Retry = mode
			runs := 0
			flaky := func(context.Context, amqp.Delivery) error {
				if runs++; runs < 3 {
					return errBoom
				}
				return nil
			}
			for i := 0; runs < 3; i++ {
				if _, err := b.Handle(t.Context(), b.delivery(i > 0), flaky); err != nil {
					t.Fatal(err)
				}
			}
			if last := b.acks.got[len(b.acks.got)-1]; last != "ack multiple=false" {
				t.Errorf("last settlement: %s", last)
			}
			if got := b.store.record(t); got != `"done" 2+0 marked false` {
				t.Errorf("record: %s", got)
			}
		})
	}
}

func TestHandlerSteers(t *testing.T) {
	for _, tc := range []struct {
		name    string
		handler Handler
		outcome Outcome
		waited  time.Duration
		reason  string
	}{
		{"reject", func(context.Context, amqp.Delivery) error { return Reject(errBoom) }, DeadLettered, 0, "boom"},
		{"reject, wrapped", func(context.Context, amqp.Delivery) error { return fmt.Errorf("parsing: %w", Reject(errBoom)) }, DeadLettered, 0, "parsing: boom"},
		{"retry after", func(context.Context, amqp.Delivery) error { return RetryAfter(errBoom, 7*time.Second) }, Requeued, 7 * time.Second, "boom"},
		{"retry after a negative time", func(context.Context, amqp.Delivery) error { return RetryAfter(errBoom, -1) }, Requeued, 0, "boom"},
		{"panic", func(context.Context, amqp.Delivery) error { panic("ouch") }, Requeued, time.Second, "panic: ouch"},
		{"panic with an error", func(context.Context, amqp.Delivery) error { panic(errBoom) }, Requeued, time.Second, "panic: boom"},
		{"its goroutine's end", func(context.Context, amqp.Delivery) error { exitGoroutine(); return nil }, Requeued, time.Second, errGoexit.Error()},
		{"reject nothing", func(context.Context, amqp.Delivery) error { return Reject(nil) }, Acked, 0, ""},
		{"retry nothing", func(context.Context, amqp.Delivery) error { return RetryAfter(nil, time.Hour) }, Acked, 0, ""},
		{"obeys its deadline", func(ctx context.Context, _ amqp.Delivery) error { <-ctx.Done(); return ctx.Err() }, Requeued, 5*time.Minute + time.Second, context.DeadlineExceeded.Error()},
		{"done in spite of its deadline", func(ctx context.Context, _ amqp.Delivery) error { <-ctx.Done(); return nil }, Acked, 5 * time.Minute, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench()
				began := time.Now()
				outcome, err := b.Handle(t.Context(), b.delivery(false), tc.handler)
				if outcome != tc.outcome || err != nil || time.Since(began) != tc.waited {
					t.Errorf("%v, %v after %v; want %v after %v", outcome, err, time.Since(began), tc.outcome, tc.waited)
				}
				records, _ := b.store.Get(t.Context(), "/", "orders", "m1")
				if tc.reason == "" {
					if len(records) != 0 {
						t.Errorf("charged: %+v", records)
					}
					return
				}
				first, _, _ := strings.Cut(records[0].LastError, "\n")
				if first != tc.reason {
					t.Errorf("reason %q, want %q", first, tc.reason)
				}
			})
		})
	}
}

func exitGoroutine() {
	var t testing.T
	t.SkipNow() // ends the goroutine, as FailNow does in a handler under test
}

func TestPanicKeepsWhereItCameFrom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		if _, err := b.Handle(t.Context(), b.delivery(false), explode); err != nil {
			t.Fatal(err)
		}
		records, _ := b.store.Get(t.Context(), "/", "orders", "m1")
		lines := strings.Split(records[0].LastError, "\n")
		if len(lines) < 2 || !strings.Contains(lines[1], "consumer.explode") {
			t.Errorf("reason does not begin with the frame that panicked:\n%s", records[0].LastError)
		}
	})
}

func explode(context.Context, amqp.Delivery) error { panic("ouch") }

func TestHungHandlerIsChargedAndLeftBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		release := make(chan struct{})
		outcome, err := b.Handle(t.Context(), b.delivery(false), func(context.Context, amqp.Delivery) error {
			<-release
			return nil
		})
		if outcome != Requeued || err != nil {
			t.Errorf("%v, %v", outcome, err)
		}
		b.expect(t, "nack requeue=true", `"" 1+0 marked false`)
		close(release)
	})
}

func TestMessageWithoutID(t *testing.T) {
	for _, tc := range []struct {
		name        string
		redelivered bool
		handler     Handler
		want        Outcome
		ran         bool
	}{
		{"succeeds", false, ok, Acked, true},
		{"fails", false, boom, DeadLettered, true},
		{"comes back", true, ok, DeadLettered, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench()
			d := b.delivery(tc.redelivered)
			d.MessageId = ""
			ran := false
			outcome, err := b.Handle(t.Context(), d, func(ctx context.Context, d amqp.Delivery) error {
				ran = true
				return tc.handler(ctx, d)
			})
			if outcome != tc.want || err != nil || ran != tc.ran || b.store.steps.Load() != 0 {
				t.Errorf("%v, %v, ran %v, %d steps", outcome, err, ran, b.store.steps.Load())
			}
		})
	}
}

func TestKeyFunc(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		b.Key = func(d amqp.Delivery) string { return d.CorrelationId }
		d := b.delivery(false)
		d.MessageId, d.CorrelationId = "", "m1"
		if outcome, err := b.Handle(t.Context(), d, boom); outcome != Requeued || err != nil {
			t.Errorf("%v, %v", outcome, err)
		}
		b.expect(t, "nack requeue=true", `"" 1+0 marked false`)
	})
}

func TestStopChargesNothing(t *testing.T) {
	for _, redelivered := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			b := newBench()
			ctx, stop := context.WithCancel(t.Context())
			outcome, err := b.Handle(ctx, b.delivery(redelivered), func(ctx context.Context, _ amqp.Delivery) error {
				stop()
				<-ctx.Done()
				return ctx.Err()
			})
			if outcome != Left || err != nil {
				t.Errorf("%v, %v", outcome, err)
			}
			want := "none"
			if redelivered {
				want = `"" 0+0 marked false`
			}
			b.expect(t, "", want)
		})
	}
}

func TestStopInTheBackoffLeavesTheWaitToTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		b.Backoff = func(int) time.Duration { return time.Minute }
		ctx, stop := context.WithCancel(t.Context())
		time.AfterFunc(20*time.Second, stop)
		if outcome, err := b.Handle(ctx, b.delivery(false), boom); outcome != Left || err != nil {
			t.Fatalf("%v, %v", outcome, err)
		}
		began := time.Now()
		if outcome, err := b.Handle(t.Context(), b.delivery(true), ok); outcome != Acked || err != nil {
			t.Fatalf("%v, %v", outcome, err)
		}
		if waited := time.Since(began); waited != 40*time.Second {
			t.Errorf("the next holder waited %v, want the 40 s that were left", waited)
		}
	})
}

func TestLongWaitIsHandedOnBeforeTheConsumerTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		later := func(context.Context, amqp.Delivery) error { return RetryAfter(errBoom, 40*time.Minute) }
		began := time.Now()
		for i, h := range []Handler{later, ok, ok} {
			want := Requeued
			if i == 2 {
				want = Acked
			}
			if outcome, err := b.Handle(t.Context(), b.delivery(i > 0), h); outcome != want || err != nil {
				t.Fatalf("holder %d: %v, %v", i+1, outcome, err)
			}
			if i < 2 && time.Since(began) != time.Duration(i+1)*15*time.Minute {
				t.Errorf("holder %d let go after %v", i+1, time.Since(began))
			}
		}
		if waited := time.Since(began); waited != 40*time.Minute {
			t.Errorf("waited %v in all, want 40 m", waited)
		}
	})
}

// TestStopInAnOutageIsMadeGood has an attempt stopped while the store is away: its marker must not stay open, or the next
// attempt charges a crash that never was.
func TestStopInAnOutageIsMadeGood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		b.Isolation, b.MaxRetries = Strict, -1
		ctx, stop := context.WithCancel(t.Context())
		outcome, err := b.Handle(ctx, b.delivery(true), func(ctx context.Context, _ amqp.Delivery) error {
			b.store.down.Store(true)
			stop()
			<-ctx.Done()
			return ctx.Err()
		})
		if outcome != Left || err != nil {
			t.Fatalf("%v, %v", outcome, err)
		}
		b.store.down.Store(false)
		time.Sleep(lateFor)
		b.expect(t, "", `"" 0+0 marked false`)
		if outcome, err := b.Handle(t.Context(), b.delivery(true), ok); outcome != Acked || err != nil {
			t.Errorf("%v, %v", outcome, err)
		}
	})
}

type touchyError struct{ text string }

func (e *touchyError) Error() string { return e.text }

// TestUserFunctionsThatPanic has everything panic that a user hands over: no message may kill its process by that.
func TestUserFunctionsThatPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		b.Backoff = func(int) time.Duration { panic("backoff") }
		b.Observer = observe(func(Event) { panic("observer") })
		typedNil := func(context.Context, amqp.Delivery) error {
			var e *touchyError
			return e
		}
		if outcome, err := b.Handle(t.Context(), b.delivery(false), typedNil); outcome != Requeued || err != nil {
			t.Errorf("%v, %v", outcome, err)
		}
		b.expect(t, "nack requeue=true", `"" 1+0 marked false`)

		b.Key = func(d amqp.Delivery) string { return d.Headers["id"].(string) }
		if outcome, err := b.Handle(t.Context(), b.delivery(false), boom); outcome != DeadLettered || err != nil {
			t.Errorf("without an id: %v, %v", outcome, err)
		}
	})
}

func TestDeliveryThatWaitedTooLongIsHandedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		set, err := b.prepared()
		if err != nil {
			t.Fatal(err)
		}
		a := set.receive(b.delivery(false))
		time.Sleep(16 * time.Minute) // no handler was free
		set.try(t.Context(), t.Context(), a, func(context.Context, amqp.Delivery) error { t.Error("it ran"); return nil })
		set.advance(t.Context(), a)
		b.expect(t, "nack requeue=true", "none")
	})
}

func TestSuspectRunsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		m := counter.Attempt{Message: counter.Message{VHost: "/", Queue: "orders", ID: "m1"}, Token: "died"}
		if _, err := b.store.Start(t.Context(), m, counter.Shared, 4); err != nil {
			t.Fatal(err)
		}
		var running atomic.Int64
		busy := func(context.Context, amqp.Delivery) error {
			running.Add(1)
			defer running.Add(-1)
			time.Sleep(time.Second)
			return nil
		}
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() {
				d := b.delivery(false)
				d.MessageId = fmt.Sprint("other", i)
				quiet := *b.Settler
				quiet.Observer = nil
				time.Sleep(time.Duration(i) * 100 * time.Millisecond)
				if outcome, err := quiet.Handle(t.Context(), d, busy); outcome != Acked || err != nil {
					t.Errorf("%v, %v", outcome, err)
				}
			})
		}
		wg.Go(func() {
			time.Sleep(500 * time.Millisecond)
			outcome, err := b.Handle(t.Context(), b.delivery(true), func(context.Context, amqp.Delivery) error {
				for range 10 {
					if n := running.Load(); n != 0 {
						t.Errorf("%d others run beside a suspect", n)
					}
					time.Sleep(100 * time.Millisecond)
				}
				return nil
			})
			if outcome != Acked || err != nil {
				t.Errorf("%v, %v", outcome, err)
			}
		})
		wg.Wait()
		if got := (*b.events)[0]; got != "isolate" {
			t.Errorf("events: %v", *b.events)
		}
	})
}

// TestKillerIsBounded replays what a message that kills every process leaves behind: a marker each time it was asked for.
func TestKillerIsBounded(t *testing.T) {
	for _, tc := range []struct {
		iso  Isolation
		runs int
	}{{IsolateSuspects, 6}, {Strict, 4}} {
		synctest.Test(t, func(t *testing.T) {
			b := newBench()
			b.Isolation = tc.iso
			runs := 0
			for i := 0; ; i++ {
				if i > 20 {
					t.Fatal("it is never dead-lettered")
				}
				set, err := b.prepared()
				if err != nil {
					t.Fatal(err)
				}
				a := set.receive(b.delivery(i > 0))
				if set.advance(t.Context(), a); a.next == stepDone {
					if a.outcome != DeadLettered {
						t.Fatalf("%v", a.outcome)
					}
					break
				}
				died := false
				dies := func(context.Context, amqp.Delivery) error { died = true; return nil }
				if a.next == stepRunAlone { // START exclusive is part of try
					a.mode = counter.Exclusive
					if set.start(t.Context(), a); a.next == stepDeadLetter {
						set.advance(t.Context(), a)
						break
					}
				}
				_ = dies(t.Context(), a.delivery)
				if died {
					runs++
				}
			}
			if runs != tc.runs {
				t.Errorf("isolation %d: %d runs, want %d", tc.iso, runs, tc.runs)
			}
			b.expect(t, "nack requeue=false", `"exhausted" 0+4 marked false`)
		})
	}
}

func TestSettlementThatCannotBeSent(t *testing.T) {
	b := newBench()
	b.acks.fail = amqp.ErrClosed
	outcome, err := b.Handle(t.Context(), b.delivery(false), ok)
	if outcome != Left || !errors.Is(err, ErrSettlement) || !errors.Is(err, amqp.ErrClosed) {
		t.Errorf("%v, %v", outcome, err)
	}
}

func TestHandlerCannotSettle(t *testing.T) {
	b := newBench()
	_, err := b.Handle(t.Context(), b.delivery(false), func(_ context.Context, d amqp.Delivery) error {
		for _, err := range []error{d.Ack(false), d.Nack(false, true), d.Reject(true)} {
			if !errors.Is(err, ErrSettled) {
				t.Errorf("settling in a handler: %v", err)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	b.expect(t, "ack multiple=false", "none")
}

func TestSettlerFieldsAreRefused(t *testing.T) {
	var absent *counter.Counter
	for name, change := range map[string]func(*Settler){
		"Queue":                    func(s *Settler) { s.Queue = "" },
		"Counter":                  func(s *Settler) { s.Counter = nil },
		"Counter (nil)":            func(s *Settler) { s.Counter = absent },
		"MaxRetries":               func(s *Settler) { s.MaxRetries = 1001 },
		"Retry":                    func(s *Settler) { s.Retry = 3 },
		"Isolation":                func(s *Settler) { s.Isolation = -1 },
		"ConsumerTimeout":          func(s *Settler) { s.ConsumerTimeout = time.Second },
		"HandlerTimeout":           func(s *Settler) { s.HandlerTimeout = time.Hour },
		"HandlerTimeout (default)": func(s *Settler) { s.ConsumerTimeout = 5 * time.Minute },
	} {
		b := newBench()
		change(b.Settler)
		field, _, _ := strings.Cut(name, " ")
		if outcome, err := b.Handle(t.Context(), b.delivery(false), ok); outcome != Left || err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v, %v", name, outcome, err)
		}
		b.expect(t, "", "none")
	}
	b := newBench()
	if outcome, err := b.Handle(t.Context(), b.delivery(false), nil); outcome != Left || err == nil {
		t.Errorf("nil handler: %v, %v", outcome, err)
	}
}

func TestNoRetries(t *testing.T) {
	b := newBench()
	b.MaxRetries = -1
	if outcome, err := b.Handle(t.Context(), b.delivery(false), boom); outcome != DeadLettered || err != nil {
		t.Errorf("%v, %v", outcome, err)
	}
}

// TestWaitForTheLockIsBounded shows that a delivery which waits to run alone goes back when it was held for long enough.
func TestWaitForTheLockIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		b.Isolation, b.ConsumerTimeout, b.HandlerTimeout = Strict, time.Minute, 30*time.Second
		b.lock = semaphore.NewWeighted(everything)
		if !b.lock.TryAcquire(1) {
			t.Fatal("the lock is not free")
		}
		began := time.Now()
		outcome, err := b.Handle(t.Context(), b.delivery(false), ok)
		if outcome != Requeued || err != nil || time.Since(began) > 31*time.Second {
			t.Errorf("%v, %v after %v; want it requeued after 30s", outcome, err, time.Since(began))
		}
		b.expect(t, "nack requeue=true", "none")
	})
}
