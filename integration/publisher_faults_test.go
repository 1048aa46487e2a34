package integration

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	amqp "github.com/rabbitmq/amqp091-go"
	"go.uber.org/goleak"

	"github.com/strikesmq/strikes/internal/proctest"
	"github.com/strikesmq/strikes/publisher"
)

// pubStormPlan says who publishes how many messages, and which faults strike meanwhile.
type pubStormPlan struct {
	queue            string
	goroutines, each int
	fault            func()
	faults           int
}

// pubStorm publishes from many goroutines while fault strikes now and then. It publishes undecided messages again with
// their ids. It checks that each id is in the queue, once more only for each undecided error.
func pubStorm(t *testing.T, p *publisher.Publisher, s pubStormPlan) {
	t.Helper()
	ctx := pubContext(t)
	var (
		calls sync.WaitGroup
		done  atomic.Int64
		mu    sync.Mutex
		tries = make(map[string]int) // by id: how often it may be in the queue
	)
	publish := func() {
		id := ""
		for may := 1; ; may++ {
			var err error
			id, err = p.Publish(ctx, "", s.queue, amqp.Publishing{MessageId: id})
			if err == nil {
				mu.Lock()
				tries[id] = may
				mu.Unlock()
				done.Add(1)
				return
			}
			if e := pubError(t, err, publisher.ErrConnectionLost); !e.Undecided {
				may--
			}
		}
	}
	for range s.goroutines {
		calls.Go(func() {
			for range s.each {
				publish()
			}
		})
	}
	total := s.goroutines * s.each
	for i := range s.faults {
		for done.Load() < int64((i+1)*total/(s.faults+1)) && ctx.Err() == nil {
			time.Sleep(time.Millisecond)
		}
		s.fault()
	}
	calls.Wait()
	got := pubIDs(t, s.queue)
	if len(tries) != total || len(got) != total {
		t.Errorf("%d ids confirmed, %d in the queue, want %d of each", len(tries), len(got), total)
	}
	for id, n := range got {
		if n > tries[id] {
			t.Errorf("message %q is in the queue %d times, but was sent at most %d times", id, n, tries[id])
		}
	}
}

func TestPublishThroughCutConnections(t *testing.T) {
	between, through := proxied(t, brokerURL(t))
	_, queue := pubQueue(t, nil)
	before := goleak.IgnoreCurrent()
	p := pubNew(t, through, nil)
	pubStorm(t, p, pubStormPlan{queue: queue, goroutines: 32, each: 200, fault: between.Cut, faults: 10})
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if err := goleak.Find(before); err != nil {
		t.Error(err)
	}
}

func TestPublishWhileAnOperatorClosesTheConnection(t *testing.T) {
	t.Parallel()
	name, broker := "pub-"+uuid.NewString(), brokerURL(t)
	p, err := publisher.New(func(context.Context) (*amqp.Connection, error) {
		props := amqp.NewConnectionProperties()
		props.SetClientConnectionName(name)
		return amqp.DialConfig(broker, amqp.Config{Properties: props})
	}, nil)
	need(t, err)
	t.Cleanup(func() { _ = p.Close() })
	_, queue := pubQueue(t, nil)
	pubStorm(t, p, pubStormPlan{queue: queue, goroutines: 8, each: 100, faults: 1, fault: func() {
		proctest.Eventually(t, pubPatience, "the connection closed", func() bool { return cut(t, name) })
	}})
}

func TestPublishWithoutBroker(t *testing.T) {
	t.Parallel()
	_, queue := pubQueue(t, nil)
	between, through := proxied(t, brokerURL(t))
	between.Refuse(true)
	p := pubNew(t, through, nil)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second) // a dial has failed
	defer cancel()
	_, err := p.Publish(ctx, "", queue, amqp.Publishing{MessageId: "given up"})
	if e := pubError(t, err, context.DeadlineExceeded); e.Undecided || !strings.Contains(err.Error(), "no connection") {
		t.Errorf("want: not sent, no connection; got %v", err)
	}
	waited := make(chan error, 1)
	go func() {
		_, err := p.Publish(pubContext(t), "", queue, amqp.Publishing{MessageId: "waited"})
		waited <- err
	}()
	between.Refuse(false)
	if err := <-waited; err != nil {
		t.Error(err)
	}
	if got := pubIDs(t, queue); got["waited"] != 1 || got["given up"] != 0 {
		t.Errorf("the queue has %v", got)
	}
}

// A connection stops dead without closing, with little and with too much to write for the buffers in between. A
// message that hangs there keeps the one behind it unsent, for the next connection. It is enough that one timeout
// finds out. Each lasts until the message behind is on its way.
func TestPublishOnADeadConnection(t *testing.T) {
	t.Parallel()
	const small, large = 10, 15 << 20
	for name, tt := range map[string]struct {
		size      int
		query     string
		timeout   time.Duration
		behindErr error
	}{
		"no confirm":                   {small, "", 5 * time.Second, publisher.ErrConnectionLost},
		"no confirm, write hangs":      {large, "", 5 * time.Second, nil},
		"no heartbeat":                 {small, "?heartbeat=2", time.Minute, publisher.ErrConnectionLost},
		"no heartbeat and write hangs": {large, "?heartbeat=2", time.Minute, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // most of it is waiting
			_, queue := pubQueue(t, nil)
			between, through := proxied(t, brokerURL(t))
			p := pubNew(t, through+tt.query, &publisher.Options{ConfirmTimeout: tt.timeout})
			body := bytes.Repeat([]byte("x"), tt.size) // before the freeze, because making it may take two heartbeats
			publish := func(patience time.Duration, id string, body []byte) error {
				m := amqp.Publishing{MessageId: id, Body: body}
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				return errOf(p.Publish(ctx, "", queue, m))
			}
			need(t, publish(pubPatience, "before", body[:small]))
			between.Freeze()
			begin := time.Now()
			err := publish(time.Second, "dead", body)
			if e := pubError(t, err, context.DeadlineExceeded); !e.Undecided {
				t.Errorf("want undecided, got %v", err)
			}
			if took := time.Since(begin); took > pubPatience/2 {
				t.Errorf("Publish returned %v after it began, its ctx ended after 1s", took)
			}
			if err := publish(pubPatience, "behind", body[:small]); !errors.Is(err, tt.behindErr) {
				t.Errorf("behind: %v, want %v", err, tt.behindErr)
			}
			if err := publish(pubPatience, "after", body[:small]); err != nil {
				t.Error(err)
			}
			got := pubIDs(t, queue)
			if got["before"] != 1 || got["after"] != 1 || tt.behindErr == nil && got["behind"] != 1 {
				t.Errorf("the queue has %v", got)
			}
		})
	}
}

// blocked is the method connection.blocked, which the broker sends in a memory alarm.
func blocked(reason string) []byte {
	return connectionFrame(60, append([]byte{byte(len(reason))}, reason...))
}

// connectionFrame is the frame of a method of the class connection.
func connectionFrame(method byte, args []byte) []byte {
	const class, kind, end = 10, 1, 0xCE
	frame := []byte{kind, 0, 0, 0, 0, 0, byte(4 + len(args)), 0, class, 0, method}
	return append(append(frame, args...), end)
}

func TestPublishWhileBlocked(t *testing.T) {
	t.Parallel()
	_, queue := pubQueue(t, nil)
	between, through := proxied(t, brokerURL(t))
	p := pubNew(t, through, &publisher.Options{ConfirmTimeout: 3 * time.Second})
	need(t, errOf(p.Publish(pubContext(t), "", queue, amqp.Publishing{MessageId: "before"})))
	between.Say(blocked("low on memory"))

	// The frame may take a moment to arrive: publish until one call is held. Before that, a confirm may take longer than
	// the call waits.
	for held, end := false, time.Now().Add(pubPatience); !held; {
		ctx, cancel := context.WithTimeout(pubContext(t), 100*time.Millisecond)
		_, err := p.Publish(ctx, "", queue, amqp.Publishing{MessageId: "held"})
		cancel()
		if err == nil {
			continue
		}
		e := pubError(t, err, context.DeadlineExceeded)
		if e.Undecided && time.Now().Before(end) {
			continue
		}
		if e.Undecided || !strings.Contains(err.Error(), "low on memory") {
			t.Fatalf("want: not sent, low on memory; got %v", err)
		}
		held = true
	}
	pubIDs(t, queue)

	waited := make(chan error, 1)
	go func() {
		_, err := p.Publish(pubContext(t), "", queue, amqp.Publishing{MessageId: "waited"})
		waited <- err
	}()
	select {
	case err := <-waited: // for longer than ConfirmTimeout, which must not count
		t.Fatalf("published while blocked: %v", err)
	case <-time.After(4 * time.Second):
	}
	between.Say(connectionFrame(61, nil))
	if err := <-waited; err != nil {
		t.Error(err)
	}
	if got := pubIDs(t, queue); len(got) != 1 || got["waited"] != 1 {
		t.Errorf("the queue has %v, want what waited and not what was called off", got)
	}
}

func TestPublisherClose(t *testing.T) {
	_, queue := pubQueue(t, nil)
	before := goleak.IgnoreCurrent()
	p := pubNew(t, brokerURL(t), nil)
	var calls sync.WaitGroup
	var confirmed atomic.Int64
	for i := range 200 {
		calls.Go(func() {
			_, err := p.Publish(pubContext(t), "", queue, amqp.Publishing{MessageId: fmt.Sprint(i)})
			if err == nil {
				confirmed.Add(1)
			} else if e := pubError(t, err, publisher.ErrClosed); e.Undecided {
				t.Error(err)
			}
		})
	}
	for confirmed.Load() == 0 && t.Context().Err() == nil {
		time.Sleep(time.Millisecond)
	}
	for range 2 {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
	calls.Wait()
	if got := pubIDs(t, queue); len(got) != int(confirmed.Load()) {
		t.Errorf("%d confirmed, %d in the queue", confirmed.Load(), len(got))
	}
	_, err := p.Publish(pubContext(t), "", queue, amqp.Publishing{})
	pubError(t, err, publisher.ErrClosed)
	if err := goleak.Find(before); err != nil {
		t.Error(err)
	}
}

// TestPublisherCloseIsBounded: Close ends although the broker neither answers nor hangs up, and CloseWithin does not
// wait ConfirmTimeout for it. The time blocked does not count for an unconfirmed message.
func TestPublisherCloseIsBounded(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		timeout time.Duration
		blocked bool
		close   func(*publisher.Publisher) error
		want    string
	}{
		"Close": {3 * time.Second, true, (*publisher.Publisher).Close, "messages: 1;"},
		"CloseWithin": {time.Hour, false, func(p *publisher.Publisher) error { return p.CloseWithin(0) },
			"unconfirmed after 0s: messages: 1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, queue := pubQueue(t, nil)
			between, through := proxied(t, brokerURL(t))
			p := pubNew(t, through, &publisher.Options{ConfirmTimeout: tt.timeout})
			publish := func(patience time.Duration) error {
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				return errOf(p.Publish(ctx, "", queue, amqp.Publishing{MessageId: "m"}))
			}
			need(t, publish(pubPatience))
			between.Freeze()
			if e := pubError(t, publish(500*time.Millisecond), context.DeadlineExceeded); !e.Undecided {
				t.Fatalf("want undecided, got %v", e)
			}
			if tt.blocked {
				between.Say(blocked("low on disk"))
				// The second of one id waits for the fate of the first. If this connection had been given up, it would be
				// sent on a new one.
				if e := pubError(t, publish(2*tt.timeout), context.DeadlineExceeded); e.Undecided {
					t.Errorf("want not sent, got %v", e)
				}
			}
			if err := tt.close(p); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
}

func TestPublishRefusedAtTheDoor(t *testing.T) {
	t.Parallel()
	u, err := url.Parse(brokerURL(t))
	if err != nil {
		t.Fatal("the broker's URL cannot be parsed")
	}
	u.User = url.UserPassword(u.User.Username(), "s3cret")
	broken := strings.Replace(u.String(), u.Host, u.Host+"x", 1)
	plain := brokerURL(t)
	for name, dial := range map[string]func(context.Context) (*amqp.Connection, error){
		"password": func(context.Context) (*amqp.Connection, error) { return amqp.Dial(u.String()) },
		"vhost": func(context.Context) (*amqp.Connection, error) {
			return amqp.DialConfig(plain, amqp.Config{Vhost: "pub-no-such"})
		},
		"url":     func(context.Context) (*amqp.Connection, error) { return amqp.Dial(broken) },
		"nothing": func(context.Context) (*amqp.Connection, error) { return nil, nil },
		"recovery": func(context.Context) (*amqp.Connection, error) {
			return amqp.DialConfig(plain, amqp.Config{Recovery: &amqp.Recovery{}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := publisher.New(dial, nil)
			need(t, err)
			defer p.Close()
			_, err = p.Publish(pubContext(t), "", "q", amqp.Publishing{})
			var e *publisher.Error
			if !errors.As(err, &e) || e.Undecided || errors.Is(err, context.DeadlineExceeded) || strings.Contains(err.Error(),
				"s3cret") {
				t.Errorf("got %v", err)
			}
		})
	}
}
