package figures

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/integration/internal/rig"
	"github.com/strikesmq/strikes/internal/poll"
)

// outageHeld gives a consumer redelivered messages and messages that fail while the store is down, so that it can
// decide nothing, and looks at what it does.
type outageHeld struct {
	down             time.Duration
	redelivered, bad int
	concurrency      int
	how              string
}

// waitingCPU is how much of a core a consumer that waits may use.
const waitingCPU = 0.05

// settling is granted for what is on its way when the outage begins and ends.
const settling = 2 * time.Second

func (o *outageHeld) flags(f *flag.FlagSet) {
	f.DurationVar(&o.down, "for", 5*time.Minute, "time for which the store is down")
	f.IntVar(&o.redelivered, "redelivered", 100, "messages that are redelivered")
	f.IntVar(&o.bad, "failures", 100, "messages whose first attempt fails")
	f.IntVar(&o.concurrency, "concurrency", 16, "handlers in parallel")
	f.StringVar(&o.how, "how", rig.Killed, "the store is away: kill (connections refused) or freeze (no answer)")
}

// outageHeldMeasured is what came of it.
type outageHeldMeasured struct {
	How        string  `json:"how"`
	Down       float64 `json:"down_seconds"`
	Deliveries int     `json:"held_deliveries"`
	Begun      int     `json:"redelivered_begun"` // while the store was down
	Settled    int     `json:"settled"`           // while the store was down
	CPU        float64 `json:"cpu_percent"`       // of one core, of the consumer process while it waits
	Recovery   float64 `json:"recovery_seconds"`  // from the store's return until all was handled
	Dead       int     `json:"dead_letters"`
	Store      kept    `json:"store"` // after that
}

func (o *outageHeld) measure(ctx context.Context, s *setup) (any, []string, error) {
	m := outageHeldMeasured{How: o.how, Deliveries: o.redelivered + o.bad}
	spec := s.spec(o.concurrency)
	spec.Prefetch, spec.Every = m.Deliveries, 50*time.Millisecond
	p, err := spawn(spec)
	if err != nil {
		return nil, nil, err
	}
	defer p.end()
	if err := s.attached(ctx); err != nil {
		return nil, nil, err
	}
	if err := o.outage(ctx, s, p, &m); err != nil {
		return nil, nil, err
	}
	if err := o.recovery(ctx, s, p, &m); err != nil {
		return nil, nil, err
	}
	if err := p.stop(); err != nil {
		return nil, nil, err
	}
	m.Store, err = s.count(ctx)
	m.Dead = m.Store.dead
	return m, m.missed(o.bad), err
}

// attached waits until the consumer consumes.
func (s *setup) attached(ctx context.Context) error {
	return poll.Until(ctx, time.Minute, "the consumer", func() error {
		q, err := s.broker.Queue(queue)
		if err == nil && q.Consumers == 0 {
			err = errors.New("there is none")
		}
		return err
	})
}

// outage takes the store away, gives the consumer what it cannot decide, and watches.
func (o *outageHeld) outage(ctx context.Context, s *setup, p *process, m *outageHeldMeasured) error {
	out, err := s.producer(ctx)
	if err != nil {
		return err
	}
	defer out.Close()
	first, err := o.take(ctx, s)
	if err != nil {
		return err
	}
	defer first.Close()
	if err := s.publish(ctx, out, slices.Repeat([]string{"1ms"}, o.redelivered)...); err != nil {
		return err
	}
	if err := s.drained(ctx); err != nil {
		return err
	}
	if err := s.store.Away(o.how); err != nil {
		return err
	}
	from := time.Now()
	if err := first.Close(); err != nil { // what it took is redelivered
		return err
	}
	if err := s.publish(ctx, out, slices.Repeat([]string{failing}, o.bad)...); err != nil {
		return err
	}
	if err := s.drained(ctx); err != nil {
		return err
	}
	s.say("%d deliveries are held", m.Deliveries)
	return o.watch(ctx, p, from, m)
}

// take has another consumer take what is published next.
func (o *outageHeld) take(ctx context.Context, s *setup) (*amqp.Connection, error) {
	conn, err := s.dial(ctx)
	if err != nil {
		return nil, err
	}
	ch, err := conn.Channel()
	if err == nil {
		err = ch.Qos(o.redelivered, 0, false)
	}
	if err == nil {
		_, err = ch.ConsumeWithContext(ctx, queue, "first", false, false, false, false, amqp.Table{"x-priority": int32(10)})
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

// drained waits until all messages are with a consumer.
func (s *setup) drained(ctx context.Context) error {
	return poll.Until(ctx, time.Minute, "all messages to be delivered", func() error {
		q, err := s.broker.Queue(queue)
		if err == nil && q.Messages > 0 {
			err = fmt.Errorf("%d are ready", q.Messages)
		}
		return err
	})
}

// watch lets the outage last.
func (o *outageHeld) watch(ctx context.Context, p *process, from time.Time, m *outageHeldMeasured) error {
	begin, err := p.at(ctx, time.Now().Add(settling))
	if err != nil {
		return err
	}
	end, err := p.at(ctx, from.Add(max(o.down, 2*settling)))
	if err != nil {
		return err
	}
	m.Down = seconds(end.At.Sub(from))
	m.Begun, m.Settled = end.Tally.Again, end.Tally.Settled
	m.CPU = 100 * ratio(float64(end.CPU-begin.CPU), float64(end.At.Sub(begin.At)))
	if end.Tally.Held == 0 || end.Tally.Began-end.Tally.Again != o.bad {
		return fmt.Errorf("the consumer holds nothing: %+v", end.Tally)
	}
	return nil
}

func (o *outageHeld) recovery(ctx context.Context, s *setup, p *process, m *outageHeldMeasured) error {
	if err := s.store.Back(ctx, o.how); err != nil {
		return err
	}
	back := time.Now()
	done, err := p.until(ctx, 2*time.Minute, "all to be handled", func(l line) bool {
		return l.Tally.Distinct == m.Deliveries
	})
	if err != nil {
		s.say("%v", err) // missed tells
	}
	m.Recovery = seconds(done.At.Sub(back))
	return nil
}

func (m outageHeldMeasured) missed(bad int) (missed []string) {
	for _, check := range []struct {
		wrong bool
		what  string
	}{
		{m.Begun > 0, fmt.Sprintf("%d redelivered messages begun", m.Begun)},
		{m.Settled > 0, fmt.Sprintf("%d settled", m.Settled)},
		{m.CPU >= 100*waitingCPU, fmt.Sprintf("%.1f %% CPU", m.CPU)},
		{m.Store.Failures != bad || m.Store.Most > 1, fmt.Sprintf("%d of %d failures counted, at most %d of one message",
			m.Store.Failures, bad, m.Store.Most)},
		{m.Store.Crashes > 0, fmt.Sprintf("%d crashes counted", m.Store.Crashes)},
		{m.Dead > 0, fmt.Sprintf("%d dead letters", m.Dead)},
	} {
		if check.wrong {
			missed = append(missed, check.what)
		}
	}
	return slices.Clip(missed)
}
