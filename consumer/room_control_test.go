package consumer

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/consumer/internal/control"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/pause"
)

// Control is Memory's, unless the store is down, or replies too late.
func (s *store) Control(ctx context.Context, vhost, queue string, r counter.Reader) (counter.Control, error) {
	if s.controls.Add(1); s.down.Load() {
		return counter.Control{}, errDown
	}
	if !pause.For(ctx, time.Duration(s.late.Load())) {
		return counter.Control{}, ctx.Err()
	}
	return s.Memory.Control(ctx, vhost, queue, r)
}

func (s *store) states(t *testing.T) []counter.ConsumerState {
	t.Helper()
	now, err := s.State(t.Context(), "/", "orders")
	need(t, err)
	return now.Consumers
}

func (s *store) pause(t *testing.T) {
	t.Helper()
	need(t, s.Pause(t.Context(), "/", "orders", counter.Note{By: "op", Why: "why"}))
}

// heard has the session hear operators until release is called.
func heard(s *session) (k *control.Control, release func()) {
	r := find[*controlRoom](s.rooms)
	r.control.Start()
	return r.control, r.close
}

// controlOn returns a control of the session's queue in another store.
func controlOn(s *session, store control.Store) *control.Control {
	return control.New(store, s.vhost, s.Queue, find[*controlRoom](s.rooms).reader(), s.Logger)
}

// TestControlIsShared: however many sessions a consumer has, one after the other or on partitions, it reads once a
// second, until the last of them ends.
func TestControlIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		first := sessionOn(s, Consumer{})
		next := newSession(first.Consumer, "/", first.rooms)
		k, end := heard(next)
		read := []*control.Control{find[*controlRoom](first.rooms).control}
		for _, partition := range []string{"orders.0", "orders.1"} {
			of, left := heard(newSessionOn(partition, first.Consumer, "/", next.rooms))
			read = append(read, of)
			left()
		}
		for i, other := range read {
			if other != k {
				t.Fatalf("session %d has a control of its own", i)
			}
		}
		time.Sleep(10*time.Second + control.Every/2)
		synctest.Wait()
		if n := s.controls.Load(); n != 11 {
			t.Errorf("%d reads in ten seconds", n)
		}
		if got := s.states(t); len(got) != 1 || got[0].Consumer != thisProcess {
			t.Errorf("the store knows %+v", got)
		}
		if end(); len(s.states(t)) != 0 {
			t.Errorf("after the last has ended: %+v", s.states(t))
		}
		find[*controlRoom](sessionOn(s, Consumer{}).rooms).close() // it never consumed, so it reports nothing
		if n := s.controls.Load(); n != 12 {
			t.Errorf("%d reads, want one more: the report of the end", n)
		}
	})
}

// TestASlowStoreLearnsOfAStop: the last report may take three times as long as a read.
func TestASlowStoreLearnsOfAStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		_, release := heard(sessionOn(s, Consumer{}))
		time.Sleep(control.Every / 2)
		s.late.Store(int64(3 * control.Timeout))
		if release(); len(s.states(t)) != 0 {
			t.Errorf("after the stop: %+v", s.states(t))
		}
	})
}

// TestPauseEndsASession: within two seconds; the process says so when the session holds nothing; without the store the
// pause stands.
func TestPauseEndsASession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		k, release := heard(sessionOn(s, Consumer{}))
		defer release()
		consuming, end := k.Consuming(t.Context())
		time.Sleep(time.Second / 2)
		s.pause(t)
		select {
		case <-consuming.Done():
		case <-time.After(2 * time.Second):
			t.Fatal("the session goes on")
		}
		time.Sleep(3 * time.Second)
		if got := s.states(t); got[0].Paused {
			t.Error("the process says that it has stopped while it drains")
		}
		end()
		synctest.Wait()
		if got := s.states(t); !got[0].Paused {
			t.Error("the process does not say that it has stopped")
		}
		s.down.Store(true)
		need(t, s.Resume(t.Context(), "/", "orders", counter.Note{}))
		time.Sleep(3 * time.Second)
		reply, changed := k.Current()
		if !reply.Paused {
			t.Error("the pause ended when the store was out of reach")
		}
		if session, end := k.Consuming(t.Context()); session.Err() == nil {
			t.Error("a session that begins during the pause goes on")
		} else {
			end()
		}
		s.down.Store(false)
		select {
		case <-changed:
		case <-time.After(2 * time.Second):
		}
		if reply, _ := k.Current(); reply.Paused {
			t.Error("the resume is not heard")
		}
		if session, end := k.Consuming(t.Context()); session.Err() != nil {
			t.Error("a session after the resume has ended")
		} else {
			end()
		}
	})
}

// TestAnotherSessionFollowsAPause: one follows a session that a pause ended, and one that waited for the resume. None
// follows on the connection if the session ended by itself.
func TestAnotherSessionFollowsAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, before, consumed := newStore(), rooms(nil), 0
		run := func(consume func(context.Context) error) (again bool, err error) {
			session := newSession(sessionOn(s, Consumer{}).Consumer, "/", before)
			before = session.rooms
			return session.amidRooms(t.Context(), &amqp.Connection{}, func(ctx context.Context) error {
				consumed++
				return consume(ctx)
			})
		}
		untilPause := func(ctx context.Context) error {
			s.pause(t)
			<-ctx.Done()
			return nil
		}
		if again, err := run(untilPause); !again || err != nil {
			t.Errorf("after a pause: %t, %v", again, err)
		}
		go func() {
			time.Sleep(3 * time.Second)
			need(t, s.Resume(t.Context(), "/", "orders", counter.Note{}))
		}()
		if again, err := run(untilPause); !again || err != nil || consumed != 1 {
			t.Errorf("after the resume: %t, %v; %d sessions consumed, want 1", again, err, consumed)
		}
		if again, err := run(func(context.Context) error { return errBoom }); again || !errors.Is(err, errBoom) {
			t.Errorf("without a pause: %t, %v", again, err)
		}
		before.close()
	})
}

// TestSkipDuringAPause: a skip that is announced does not end the wait for the end of a pause.
func TestSkipDuringAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, m := newStore(), counter.Message{VHost: "/", Queue: "orders", ID: "m1"}
		s.pause(t)
		need(t, errOf(s.Fail(t.Context(), counter.Attempt{Message: m, Token: "x"}, counter.Failure{Limit: 4})))
		var waited atomic.Bool
		session := sessionOn(s, Consumer{})
		_, release := heard(session)
		defer release()
		go func() {
			_, err := find[*controlRoom](session.rooms).awaitResume(t.Context(), &amqp.Connection{})
			waited.Store(err == nil)
		}()
		time.Sleep(3 * time.Second)
		need(t, errOf(s.Skip(t.Context(), m, counter.Note{Why: "known bad"})))
		if time.Sleep(3 * time.Second); waited.Load() {
			t.Error("the wait ended during the pause")
		}
		need(t, s.Resume(t.Context(), "/", "orders", counter.Note{}))
		if time.Sleep(3 * time.Second); !waited.Load() {
			t.Error("the wait goes on after the pause")
		}
	})
}

// TestSkipEndsTheBackoff: in place and with requeue, once; a skip that was cancelled does not make a busy loop.
func TestSkipEndsTheBackoff(t *testing.T) {
	for _, tc := range []struct {
		retry RetryMode
		want  string
	}{
		{RetryInPlace, "nack requeue=false"},
		{RetryRequeue, "nack requeue=true"}, // and then START of the next receiver
	} {
		synctest.Test(t, func(t *testing.T) {
			b := newBench()
			b.Retry, b.Backoff = tc.retry, func(int) time.Duration { return 5 * time.Minute }
			var runs atomic.Int64
			fails := func(context.Context, amqp.Delivery) error { runs.Add(1); return errBoom }
			s := b.session(Consumer{Handler: fails, Concurrency: 1, Prefetch: 1})
			_, release := heard(s)
			defer release()
			s.prepare(t.Context(), t.Context())
			began := time.Now()
			s.take(t.Context(), b.delivery(false))
			time.Sleep(10 * time.Second)
			m := counter.Message{VHost: "/", Queue: "orders", ID: "m1"}
			need(t, errOf(b.store.Skip(t.Context(), m, counter.Note{Why: "known bad"})))
			s.tasks.Wait()
			if took := time.Since(began); took > 12*time.Second || runs.Load() != 1 {
				t.Errorf("%v: settled after %v and %d attempts", tc.retry, took, runs.Load())
			}
			state := `"exhausted" 1+0 marked false`
			if tc.retry == RetryRequeue {
				state = `"skip" 1+0 marked false`
			}
			b.expect(t, tc.want, state)

			need(t, b.store.Reset(t.Context(), m, counter.Note{Why: "after all"}))
			need(t, errOf(b.store.Memory.Fail(t.Context(), counter.Attempt{Message: m, Token: "x"},
				counter.Failure{Limit: 4, Wait: 5 * time.Minute})))
			before := b.store.steps.Load()
			began = time.Now()
			s.take(t.Context(), b.delivery(true))
			s.tasks.Wait()
			if took, asked := time.Since(began), b.store.steps.Load()-before; took < 4*time.Minute || asked > 10 {
				t.Errorf("%v: after a reset: settled after %v and %d steps", tc.retry, took, asked)
			}
		})
	}
}
