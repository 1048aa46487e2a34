package consumer

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// lostTo is how a connection ends when its reader fails so.
func lostTo(err error) *amqp.Error {
	return &amqp.Error{Code: amqp.FrameError, Reason: err.Error()}
}

// A connection that breaks is a frame error to the library, too.
func TestSessionEndedByAFrame(t *testing.T) {
	for _, tc := range []struct {
		says      *amqp.Error
		tells     string // of the defect
		frameMax  bool   // is advised
		undecoded bool
	}{
		{lostTo(errors.New("read tcp 127.0.0.1:5672: read: connection reset by peer")), "reset by peer", false, false},
		{lostTo(errors.New("EOF")), "EOF", false, false},
		{lostTo(amqp.ErrFrame), "could not be parsed", false, false},
		{lostTo(amqp.ErrSyntax), "nested deeper than 32 levels", false, true},
		{lostTo(amqp.ErrFrameTooLarge), "outgrown a frame", true, true},
		{&amqp.Error{Code: amqp.InternalError, Reason: "INTERNAL_ERROR", Server: true}, "cannot convert to AMQP 0.9.1",
			false, true},
		{&amqp.Error{Code: amqp.InternalError, Reason: "x"}, "x", false, false},
		{&amqp.Error{Code: amqp.SyntaxError, Reason: amqp.ErrSyntax.Reason, Server: true}, "invalid field", false, false},
	} {
		err := (&session{settings: settings{Consumer: Consumer{Queue: "orders"}}}).lost(errLost, tc.says)
		advises := strings.Contains(err.Error(), "frame_max in the broker's configuration")
		if advises != tc.frameMax || errors.Is(err, ErrUndecodable) != tc.undecoded || !errors.Is(err, errLost) ||
			!strings.Contains(err.Error(), tc.tells) {
			t.Errorf("%v: %v", tc.says, err)
		}
	}
}

// ended serves the deliveries of a channel, and reports the message that ended the session.
func ended(ctx context.Context, s *session, l *link) error {
	err := s.serve(ctx, l)
	s.report(ctx, err)
	return err
}

// TestUndecodableIsReported has a session end so after two deliveries; the handler of the second finds that it cannot
// be settled before the reason is told.
func TestUndecodableIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		lost := make(chan *amqp.Error, 1)
		var events []Event
		b.Observer = observe(func(e Event) {
			if e.Outcome == OutcomeUndecodable {
				events = append(events, e)
			}
		})
		b.acks.fail = amqp.ErrClosed
		s := b.session(Consumer{Handler: ok})
		time.AfterFunc(100*time.Millisecond, func() { lost <- lostTo(amqp.ErrSyntax) })
		err := ended(t.Context(), s, &link{channel: quietWire{new([]string)}, deliveries: b.queued("m1", "m2"), closed: lost})
		if !errors.Is(err, ErrUndecodable) || !strings.Contains(err.Error(), `after message "m2"`) {
			t.Errorf("the session ended with %v", err)
		}
		if len(events) != 1 || events[0].Queue != "orders" || events[0].VHost != "/" ||
			!errors.Is(events[0].Err, ErrUndecodable) {
			t.Errorf("events: %+v", events)
		}
		state, err := b.store.State(t.Context(), "/", "orders")
		u := state.Undecodable
		if err != nil || !strings.Contains(u, "32 levels") || !strings.HasSuffix(u, `; it came after message "m2"`) {
			t.Errorf("noted: %q, %v", u, err)
		}
	})
}

// TestUndecodableIsReportedByACarefulSession holds that a 541 is blamed on a message only where the session had no
// other.
func TestUndecodableIsReportedByACarefulSession(t *testing.T) {
	for prefetch, reported := range map[int]bool{1: true, 20: false} {
		synctest.Test(t, func(t *testing.T) {
			b := unobserved()
			s := b.session(Consumer{Prefetch: prefetch, Handler: ok})
			lost := make(chan *amqp.Error, 1)
			lost <- &amqp.Error{Code: amqp.InternalError, Reason: "INTERNAL_ERROR", Server: true}
			err := ended(t.Context(), s, &link{channel: quietWire{new([]string)}, deliveries: make(chan amqp.Delivery),
				closed: lost})
			state, _ := b.store.State(t.Context(), "/", "orders")
			u := state.Undecodable
			if !errors.Is(err, ErrUndecodable) || !decideCareful(false, err) || strings.Contains(u,
				"cannot convert") != reported {
				t.Errorf("prefetch %d: %v, noted %q", prefetch, err, u)
			}
		})
	}
}

// TestABrokerThatCannotDeliver replies 541 to basic.consume itself, if it was to deliver at once.
func TestABrokerThatCannotDeliver(t *testing.T) {
	says := &amqp.Error{Code: amqp.InternalError, Reason: "INTERNAL_ERROR", Server: true}
	for _, err := range []error{says, amqp.ErrClosed} {
		lost := make(chan *amqp.Error, 1)
		lost <- says
		s := unobserved().session(Consumer{Prefetch: 1, Handler: ok})
		got := s.refusedBy(&amqp.Connection{}, &link{closed: lost}, time.Now(), err)
		if !errors.Is(got, ErrUndecodable) || isRefused(got, nil) {
			t.Errorf("%v: %v", err, got)
		}
		late := make(chan *amqp.Error, 1)
		late <- says
		got = s.refusedBy(&amqp.Connection{}, &link{closed: late}, time.Now().Add(-5*time.Second), err)
		if errors.Is(got, ErrUndecodable) || isRefused(got, nil) || !strings.Contains(got.Error(), "majority") {
			t.Errorf("%v after 5 s, as of a queue without a majority: %v", err, got)
		}
	}
}

// TestCareEnds: the sessions of Run prefetch one after an undecodable message until one has received others for a
// while.
func TestCareEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		careful := false
		next := func(each time.Duration, n int) (s *session, took time.Duration, err error) {
			b := unobserved()
			s = b.session(Consumer{Prefetch: 20, Handler: ok})
			if careful {
				s.beCareful()
			}
			deliveries, lost := make(chan amqp.Delivery), make(chan *amqp.Error, 1)
			ctx, stop := context.WithCancel(t.Context())
			go func() {
				for i := range n {
					time.Sleep(each)
					d := b.delivery(false)
					d.MessageId = fmt.Sprint("m", i)
					select {
					case deliveries <- d:
					case <-ctx.Done():
						return
					}
				}
				lost <- lostTo(amqp.ErrSyntax)
			}()
			began := time.Now()
			err = ended(ctx, s, &link{channel: quietWire{new([]string)}, deliveries: deliveries, closed: lost})
			stop()
			synctest.Wait()
			careful = decideCareful(careful, err)
			return s, time.Since(began), err
		}
		if s, _, err := next(time.Millisecond, 5); s.Prefetch != 20 || !errors.Is(err, ErrUndecodable) {
			t.Errorf("the first session: prefetch %d, %v", s.Prefetch, err)
		}
		for range 3 {
			if s, _, err := next(time.Second, 5); s.Prefetch != 1 || !errors.Is(err, ErrUndecodable) {
				t.Errorf("while it comes: prefetch %d, %v", s.Prefetch, err)
			}
		}
		careful = decideCareful(careful, errLost)
		s, took, err := next(3*time.Second, 20)
		if s.Prefetch != 1 || !errors.Is(err, errPassed) || took != 12*time.Second || s.arrived.received != 3 {
			t.Errorf("when it is gone: prefetch %d, %v after %v and %d deliveries", s.Prefetch, err, took, s.arrived.received)
		}
		if s, _, _ := next(time.Second, 20); s.Prefetch != 20 {
			t.Errorf("then: prefetch %d", s.Prefetch)
		}
		careful = true // an idle queue reports nothing: the first delivery after the time may be the message
		if s, _, err := next(time.Minute, 1); s.Prefetch != 1 || !errors.Is(err, ErrUndecodable) {
			t.Errorf("after a pause: prefetch %d, %v", s.Prefetch, err)
		}
	})
}

func TestPositionOfAnUndecodable(t *testing.T) {
	for want, tc := range map[string]struct {
		prefetch int
		arrived  arrived
	}{
		"it is at the head of the queue":        {1, arrived{}},
		"it is among the first 10 of the queue": {10, arrived{}},
		`it came after message "m2"`:            {10, arrived{received: 2, last: "m2"}},
		"it came after a message without an id": {1, arrived{received: 2}},
	} {
		if got := tc.arrived.position(tc.prefetch); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
