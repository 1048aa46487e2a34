package integration

import (
	"context"
	"flag"
	"fmt"
	"net"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/integration/internal/rig"
	"github.com/strikesmq/strikes/internal/pause"
	"github.com/strikesmq/strikes/internal/poll"
	"github.com/strikesmq/strikes/internal/servertest"
	"github.com/strikesmq/strikes/publisher"
	"github.com/strikesmq/strikes/topology"
)

var (
	figures = flag.Bool("figures", false, "measure TestFigure… as long as docs/evidence.md says, and judge "+
		"the speed")
	figuresType = flag.String("figures.type", string(topology.Quorum), "of their queue: quorum or classic")
	figuresHow  = flag.String("figures.how", "kill", "takes the store away: kill (connections refused) or freeze "+
		"(no reply)")
)

// inFull returns the size of a figure in full, or else the small one, which shows only that it can be measured.
func inFull[T any](full, small T) T {
	if *figures {
		return full
	}
	return small
}

// site is a broker, a store and a queue of one figure, and the doings of its consumers. No figure runs beside another.
type site struct {
	t         *testing.T
	broker    *rig.Broker
	store     *rig.Store
	out       *publisher.Publisher
	published int

	mu             sync.Mutex
	running, again int // handlers; attempts at redelivered messages
	settled        int
	acked          map[string]time.Time // by id: when last
	failed         int                  // attempts
	open           map[net.Conn]bool
	dialled        int
}

func newSite(t *testing.T) *site {
	servertest.Long(t)
	s := &site{t: t, acked: map[string]time.Time{}, open: map[net.Conn]bool{}}
	s.store = private(t, func(ctx context.Context) (*rig.Store, error) {
		return rig.OpenStore(ctx, rig.Redis, "--appendonly", "yes") // it keeps the counts when it is killed
	})
	s.broker = private(t, func(ctx context.Context) (*rig.Broker, error) { return rig.OpenBroker(ctx, rig.Options{}) })
	need(t, s.broker.Declare(t.Context(), topology.Spec{Queue: "figures", Type: topology.Type(*figuresType)}))
	var err error
	s.out, err = publisher.New(publisher.Dialer(s.broker.URL, amqp.Config{}), nil)
	need(t, err)
	t.Cleanup(func() { _ = s.out.Close() })
	return s
}

// publish publishes n messages. The body is the time that the handler takes, or "fail": then the first attempt fails.
func (s *site) publish(n int, body string) {
	s.t.Helper()
	msgs := make([]publisher.Message, n)
	for i := range msgs {
		s.published++
		msgs[i] = publisher.Message{Key: "figures", Publishing: amqp.Publishing{MessageId: fmt.Sprint(s.published),
			Body: []byte(body)}}
	}
	need(s.t, s.out.PublishAll(s.t.Context(), msgs))
}

// run runs a consumer until the test ends, or the function that it returns is called.
func (s *site) run(c consumer.Consumer) (stop func()) {
	s.t.Helper()
	counts, err := counter.Dial(s.store.URL, nil)
	need(s.t, err)
	_, err = counts.Check(s.t.Context())
	need(s.t, err)
	c.Queue, c.Handler, c.Counter, c.Observer = "figures", s.handle, counts, s
	end := runConsumer(s.t, c, s.dial)
	stop = sync.OnceFunc(func() { end(); need(s.t, counts.Close()) })
	s.t.Cleanup(stop)
	return stop
}

// dial opens the connections of the consumers, which cut may end.
func (s *site) dial(ctx context.Context) (*amqp.Connection, error) {
	return consumer.Dialer(s.broker.URL, amqp.Config{Dial: func(network, addr string) (net.Conn, error) {
		conn, err := amqp.DefaultDial(10*time.Second)(network, addr)
		if err == nil {
			s.do(func() { s.open[conn] = true; s.dialled++ })
		}
		return conn, err
	}})(ctx)
}

func (s *site) do(what func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	what()
}

func (s *site) handle(ctx context.Context, d amqp.Delivery) error {
	s.do(func() {
		s.running++
		if d.Redelivered {
			s.again++
		}
	})
	defer s.do(func() { s.running-- })
	if attempt, _ := consumer.AttemptFrom(ctx); string(d.Body) == "fail" && attempt.Number == 1 {
		s.do(func() { s.failed++ })
		return errPoison
	}
	takes, _ := time.ParseDuration(string(d.Body)) // "fail" takes no time
	if !pause.For(ctx, takes) {
		return ctx.Err()
	}
	return nil
}

// Observe counts settlements.
func (s *site) Observe(_ context.Context, e consumer.Event) {
	s.do(func() {
		switch e.Outcome {
		case consumer.OutcomeAck:
			s.settled++
			s.acked[e.ID] = time.Now()
		case consumer.OutcomeRequeue, consumer.OutcomeDeadLetter:
			s.settled++
		}
	})
}

// until waits until a condition holds of the site, which it may read.
func (s *site) until(within time.Duration, what string, holds func() bool) {
	s.t.Helper()
	need(s.t, poll.Until(s.t.Context(), within, what, func() (err error) {
		s.do(func() {
			if !holds() {
				err = fmt.Errorf("%d of %d messages acked, %d handlers run, %d failed", len(s.acked), s.published, s.running,
					s.failed)
			}
		})
		return err
	}))
}

// queue waits until the queue has so many consumers, and no message that is ready.
func (s *site) queue(consumers int) {
	s.t.Helper()
	need(s.t, poll.Until(s.t.Context(), 2*time.Minute, "all messages to be delivered", func() error {
		q, err := s.broker.Queue("figures")
		if err == nil && (q.Consumers != consumers || q.Messages > 0) {
			err = fmt.Errorf("%d consumers, %d messages are ready", q.Consumers, q.Messages)
		}
		return err
	}))
}

// away takes the store away until back is called.
func (s *site) away() (back func()) {
	s.t.Helper()
	if *figuresHow == "freeze" {
		need(s.t, s.store.One.Pause())
		return func() { need(s.t, s.store.One.Resume()) }
	}
	need(s.t, s.store.One.Kill())
	return func() { need(s.t, s.store.One.Start(context.WithoutCancel(s.t.Context()))) }
}

// counted fails the test unless so many messages have one failed attempt each, and none has more, a crash, or a dead
// letter.
func (s *site) counted(want int) {
	s.t.Helper()
	counts, err := counter.Dial(s.store.URL, nil)
	need(s.t, err)
	defer counts.Close()
	n := 0
	for id := range s.published { // Admin.List has no record of a message that succeeded at last
		all, err := counts.Admin().Get(s.t.Context(), "/", "figures", fmt.Sprint(id+1))
		need(s.t, err)
		for _, r := range all {
			if n += r.Failures; r.Failures > 1 || r.Crashes > 0 || r.OpenToken != "" {
				s.t.Errorf("counted: %+v", r)
			}
		}
	}
	dead, err := s.broker.Depth("figures.dlq")
	if err != nil || n != want || dead > 0 {
		s.t.Errorf("%d failures counted, want %d; %d dead letters, %v", n, want, dead, err)
	}
}

func ownCPU(t *testing.T) time.Duration {
	var u syscall.Rusage
	need(t, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// TestFigureOutageFirst compares how fast first deliveries are handled while the store is up and down. The order of the
// two windows of a pair changes, so that a machine that grows busier or quieter favours neither.
func TestFigureOutageFirst(t *testing.T) {
	s := newSite(t)
	pairs, window := inFull(60, 2), inFull(5*time.Second, time.Second)
	const backlog, goal = 2000, .95
	s.publish(backlog, "10ms")
	stop := s.run(consumer.Consumer{Concurrency: 16})
	s.until(time.Minute, "handlers at work", func() bool { return len(s.acked) > backlog/4 })
	rates, handled := []float64{}, map[bool]int{}
	for i := range 2 * pairs {
		s.publish(backlog, "10ms")
		down, back := (i+1)/2%2 == 1, func() {}
		if down {
			back = s.away()
		}
		before, over := 0, time.Now().Add(window)
		s.do(func() { before = len(s.acked) })
		for time.Now().Before(over) {
			pause.For(t.Context(), 20*time.Millisecond)
			q, err := s.broker.Queue("figures")
			need(t, err)
			if q.Messages == 0 {
				t.Fatal("the queue is empty: this measures the publisher")
			}
			if q.Messages < backlog {
				s.publish(backlog-q.Messages, "10ms")
			}
		}
		n := 0
		s.do(func() { n = len(s.acked) - before })
		back()
		handled[down] += n
		rates = append(rates, float64(n))
	}
	stop()
	ratio := float64(handled[true]) / float64(handled[false])
	t.Logf("%d handled with the store up, %d with it down: %.3f; in each window %v", handled[false], handled[true], ratio,
		rates)
	if s.again > 0 || *figures && ratio < goal {
		t.Errorf("%.3f of the rate, want %v; %d messages were redelivered", ratio, goal, s.again)
	}
}

// TestFigureOutageHeld gives a consumer redelivered messages, and messages that fail, while the store is down. It can
// decide nothing, so it waits; afterwards each failure is counted once.
func TestFigureOutageHeld(t *testing.T) {
	s := newSite(t)
	n, down := inFull(100, 5), inFull(5*time.Minute, 4*time.Second)
	stop := s.run(consumer.Consumer{Concurrency: 16, Prefetch: 2 * n})
	s.queue(1)
	need(t, s.broker.OnChannel(func(ch *amqp.Channel) error { // takes messages, which are redelivered when it ends
		need(t, ch.Qos(n, 0, false))
		_, err := ch.Consume("figures", "first", false, false, false, false, amqp.Table{"x-priority": int32(10)})
		need(t, err)
		s.publish(n, "1ms")
		s.queue(2)
		return nil
	}))
	back := s.away()
	s.publish(n, "fail")
	s.until(time.Minute, "the failures", func() bool { return s.failed == n })
	s.queue(1)
	pause.For(t.Context(), 2*time.Second) // the last steps are on their way
	began, used := time.Now(), ownCPU(t)
	pause.For(t.Context(), down)
	cpu := 100 * (ownCPU(t) - used).Seconds() / time.Since(began).Seconds()
	s.do(func() {
		t.Logf("%d deliveries wait: %d redelivered ones begun, %d settled, %.1f %% CPU", 2*n, s.again, s.settled, cpu)
		if s.again > 0 || s.settled > 0 || *figures && cpu >= 5 {
			t.Error("want none begun, none settled, and less than 5 %")
		}
	})
	back()
	s.until(2*time.Minute, "all to be handled", func() bool { return len(s.acked) == 2*n })
	stop()
	s.counted(n)
}

// TestFigureDrain compares how fast a full queue is worked off with a kill of the broker, and without.
func TestFigureDrain(t *testing.T) {
	s := newSite(t)
	n, rounds := inFull(10_000, 500), inFull(3, 1)
	const goal = 1.5
	var ratios []float64
	for range rounds {
		whole := s.drain(n, func() time.Time {
			s.until(time.Minute, "the first", func() bool { return len(s.acked) > 0 })
			return time.Now()
		})
		left := 0
		killed := s.drain(n, func() time.Time {
			s.until(time.Minute, "some to be handled", func() bool { return len(s.acked) > n/20 })
			need(t, s.broker.Kill(t.Context()))
			pause.For(t.Context(), time.Second) // the handlers end
			s.do(func() { left = n - len(s.acked) })
			need(t, s.broker.Start(t.Context()))
			return time.Now()
		})
		ratios = append(ratios, killed.Seconds()/whole.Seconds()*float64(n)/float64(left))
	}
	s.counted(0)
	slices.Sort(ratios)
	t.Logf("times the time without the kill: %.2f", ratios)
	if median := ratios[rounds/2]; *figures && median > goal {
		t.Errorf("the median is %.2f, want %v at most", median, goal)
	}
}

// drain has a consumer drain a queue, and returns the time from the end of the trouble to the last ack.
func (s *site) drain(n int, trouble func() (over time.Time)) time.Duration {
	s.t.Helper()
	s.do(func() { clear(s.acked) })
	s.publish(n, "5ms")
	stop := s.run(consumer.Consumer{Concurrency: 16})
	over := trouble()
	s.until(3*time.Minute, "the queue to drain", func() bool { return len(s.acked) == n })
	last := time.Time{}
	s.do(func() {
		for _, at := range s.acked {
			if at.After(last) {
				last = at
			}
		}
	})
	s.queue(1)
	stop()
	return last.Sub(over)
}

// TestFigureSessions cuts the connections of consumers again and again, in the middle of handlers.
func TestFigureSessions(t *testing.T) {
	s := newSite(t)
	consumers, each := inFull(100, 5), inFull(10, 3)
	s.publish(1, "1ms") // the publisher has its goroutines

	const slack = 5 // of a timer or a dial that is just ending

	// The check of the queue takes several channels of each consumer.
	unchecked := consumer.Check{Instead: func(context.Context, *amqp.Connection) error { return nil }}
	first := steadyGoroutines(t)
	var stops []func()
	for range consumers {
		stops = append(stops, s.run(consumer.Consumer{Concurrency: 2, Check: unchecked}))
	}
	var seen []int
	hit := 0
	for n := range each {
		s.queue(consumers)
		seen = append(seen, steadyGoroutines(t))
		if n == each-1 {
			break
		}
		s.publish(10*consumers, "100ms")
		s.until(time.Minute, "handlers to run", func() bool { return s.running >= consumers })
		s.do(func() {
			hit += s.running
			for conn := range s.open {
				_ = conn.Close()
			}
			clear(s.open)
		})
	}
	for _, stop := range stops {
		stop()
	}
	last := steadyGoroutines(t)
	t.Logf("%d sessions, %d handlers hit: goroutines %d, before %d, after %d", s.dialled, hit, seen, first, last)
	if s.dialled < consumers*each || slices.Max(seen) > seen[0]+slack || last > first+slack {
		t.Errorf("want %d sessions, and as many goroutines in each", consumers*each)
	}
}

// steadyGoroutines counts them once their number has not changed for a second.
func steadyGoroutines(t *testing.T) (n int) {
	for steady := 0; steady < 5 && pause.For(t.Context(), 200*time.Millisecond); steady++ {
		if now := runtime.NumGoroutine(); now != n {
			n, steady = now, 0
		}
	}
	return n
}
