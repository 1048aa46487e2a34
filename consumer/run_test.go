package consumer

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/consumer/internal/bound"
	"github.com/strikesmq/strikes/counter"
)

func minimal() *Consumer {
	return &Consumer{Queue: "orders", Handler: ok, Counter: counter.NewMemory(nil)}
}

func TestRunReturnsWhatAnotherDialWouldMeet(t *testing.T) {
	for name, tc := range map[string]struct {
		dial func(context.Context) (*amqp.Connection, error)
		want string
	}{
		"no dial": {nil, "dial is nil"},
		"nothing": {func(context.Context) (*amqp.Connection, error) {
			return nil, nil
		}, "neither a connection nor an error"},
		"an odd URL": {func(context.Context) (*amqp.Connection, error) {
			return amqp.Dial("amqp://user:s3cret%zz@localhost/")
		}, "cannot be parsed"},
		"an odd port": {func(context.Context) (*amqp.Connection, error) {
			return amqp.Dial("amqp://user:s3cret/x@localhost/")
		}, "cannot be parsed"},
		"a parameter": {Dialer("amqp://user:s3cret@localhost/?cafile=x", amqp.Config{}), `parameter must be one of`},
		"no URL":      {Dialer("", amqp.Config{}), "URL must be amqp[s]://user:password@host:port/vhost"},
	} {
		t.Run(name, func(t *testing.T) {
			err := minimal().Run(t.Context(), tc.dial)
			if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "s3cret") {
				t.Errorf("got %v, want it to say %q and not the password", err, tc.want)
			}
		})
	}
}

// TestRunOutlivesASocketClosedInTheHandshake: amqp091-go reports it as a wrong password.
func TestRunOutlivesASocketClosedInTheHandshake(t *testing.T) {
	const refuses = 3 * time.Second // a wrong password, without a word
	down := errors.New("the broker is starting")
	for name, tc := range map[string]struct {
		took  time.Duration // each
		errs  []error       // of the dials; the last repeats
		dials int           // when Run gives up; 0: it does not
	}{
		"closed at once, always":     {0, []error{amqp.ErrCredentials}, 0},
		"closed soon, always":        {time.Second, []error{amqp.ErrCredentials}, 0},
		"closed later, once":         {refuses, []error{amqp.ErrCredentials, down}, 0},
		"closed later, now and then": {refuses, []error{amqp.ErrCredentials, down, amqp.ErrCredentials, down}, 0},
		"no virtual host, always":    {refuses, []error{amqp.ErrVhost}, 0},
		"a wrong password":           {refuses, []error{amqp.ErrCredentials}, 2},
		"later, a wrong password":    {refuses, []error{down, amqp.ErrCredentials}, 3},
		"the broker refuses":         {0, []error{&amqp.Error{Code: amqp.AccessRefused, Server: true}}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, stop := context.WithCancel(t.Context())
				dials := 0
				err := minimal().Run(ctx, func(context.Context) (*amqp.Connection, error) {
					time.Sleep(tc.took)
					if dials++; dials == 10 {
						stop()
					}
					return nil, tc.errs[min(dials, len(tc.errs))-1]
				})
				if gaveUp := err != nil; gaveUp != (tc.dials > 0) || gaveUp && dials != tc.dials {
					t.Errorf("Run: %v after %d dials", err, dials)
				}
			})
		})
	}
}

func TestRunDialsAgain(t *testing.T) {
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	for _, tc := range []struct {
		err         error
		least, most time.Duration
	}{
		{errors.New("the broker is starting"), 15 * time.Second, time.Minute}, // pauses grow to about 2 s
		{refused, 4 * time.Second, 10 * time.Second},                          // to half a second
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			began, dials, log := time.Now(), 0, strings.Builder{}
			c := minimal()
			c.Logger = slog.New(slog.NewTextHandler(&log, nil))
			err := c.Run(ctx, func(context.Context) (*amqp.Connection, error) {
				if dials++; dials == 20 {
					stop()
				}
				return nil, tc.err
			})
			if err != nil {
				t.Errorf("Run: %v", err)
			}
			if took := time.Since(began); took < tc.least || took > tc.most {
				t.Errorf("%v: 20 dials in %v, want %v to %v", tc.err, took, tc.least, tc.most)
			}
			if lines := log.String(); strings.Count(lines, "\n") != 1 || !strings.Contains(lines, "no connection to the") {
				t.Errorf("%v: it logs the reason once: %s", tc.err, lines)
			}
		})
	}
}

func TestDeadLettersFrom(t *testing.T) {
	now := time.Now()
	for _, tc := range []struct {
		try    int
		failed time.Time
		want   time.Duration
	}{
		{1, time.Time{}, 0},
		{2, time.Time{}, electing},
		{2, now, starting},
		{7, now.Add(-time.Second), starting - time.Second},
		{7, now.Add(-time.Minute), electing},
	} {
		if got := deadLettersFrom(tc.try, now, tc.failed).Sub(now); got != tc.want {
			t.Errorf("%+v: in %v", tc, got)
		}
	}
}

// TestRunStopsWhileItDials: not every dial heeds its context.
func TestRunStopsWhileItDials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		began := time.Now()
		time.AfterFunc(time.Second, stop)
		err := minimal().Run(ctx, func(context.Context) (*amqp.Connection, error) {
			time.Sleep(30 * time.Second)
			return nil, errors.New("the broker is silent")
		})
		if took := time.Since(began); err != nil || took != time.Second+bound.LastReply {
			t.Errorf("Run: %v after %v, want it to end a second after its context", err, took)
		}
		time.Sleep(time.Minute) // the dial ends
	})
}
