// Package figures measures what docs/guarantees.md says of stops, outages, restarts and sessions, one figure at a time:
//
//	go run ./integration/lab figures stops
//	go run ./integration/lab figures outage-held -for 1m -type classic
//
// Each figure runs consumer processes on a RabbitMQ of its own (or the one at -amqp) and always on a Redis of its own,
// which it kills or freezes. Progress goes to standard error. The last line on standard output is one JSON object with
// what was measured. The exit status is 1 if the figure is missed, or could not be measured.
package figures

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/integration/internal/fleet"
	"github.com/strikesmq/strikes/integration/internal/rig"
	"github.com/strikesmq/strikes/publisher"
	"github.com/strikesmq/strikes/topology"
)

const (
	queue       = "figures"
	deadLetters = queue + ".dlq"
)

// figure is one promise that can be measured.
type figure interface {
	flags(f *flag.FlagSet)

	// measure returns what was measured, and in words what of it misses the promise.
	measure(ctx context.Context, s *setup) (measured any, missed []string, err error)
}

// figures are all of them, each with its name and what is promised.
var figures = []struct {
	name, promise string
	figure        figure
}{
	{"stops", "SIGTERM in the middle of handlers: nothing counted, no ack lost", &stops{}},
	{"outage-first", "store down, no failures: first deliveries at 95 % of their rate at least", &outageFirst{}},
	{"outage-held", "store down, every delivery waits: none begun or settled, CPU under 5 %, all counted once after",
		&outageHeld{}},
	{"drain", "broker killed: drained after its restart in at most 1.5 times the time without the kill", &drain{}},
	{"sessions", "connections cut: goroutines flat over all sessions", &sessions{}},
}

// Worker makes this process a consumer if it was started as one.
func Worker() { fleet.Main(runWorker) }

// Run measures the figure that the first argument names, and prints it. It returns an error if the figure is missed.
func Run(ctx context.Context, args []string) error {
	names := "a name is missing"
	for _, f := range figures {
		names += fmt.Sprintf("\n  %-14s%s", f.name, f.promise)
		if len(args) == 0 || f.name != args[0] {
			continue
		}
		c := config{}
		set := flag.NewFlagSet(f.name, flag.ContinueOnError)
		set.StringVar(&c.kind, "type", string(topology.Quorum), "of the queue: quorum or classic")
		c.broker.Flags(set, "the queue "+queue)
		f.figure.flags(set)
		err := set.Parse(args[1:])
		if err == nil {
			err = c.validate(set.Args())
		}
		if err != nil {
			return rig.Usage(err)
		}
		return c.report(ctx, f.name, f.figure)
	}
	return rig.Usage(errors.New(names))
}

// config is what the flags say that all figures have.
type config struct {
	kind   string
	broker rig.Options
}

func (c *config) validate(rest []string) error {
	switch {
	case len(rest) > 0:
		return fmt.Errorf("unknown argument %q", rest[0])
	case c.kind != string(topology.Quorum) && c.kind != string(topology.Classic):
		return fmt.Errorf("-type is %q: quorum or classic", c.kind)
	}
	return c.broker.Validate()
}

// result is what is printed of a figure.
type result struct {
	Figure   string  `json:"figure"`
	Reached  bool    `json:"reached"`
	Missed   string  `json:"missed,omitempty"`
	Broker   string  `json:"rabbitmq"`
	Type     string  `json:"type"`
	Seconds  float64 `json:"seconds"`
	Measured any     `json:"measured"`
}

func (c config) report(ctx context.Context, name string, f figure) (err error) {
	s, err := open(ctx, c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	began := time.Now()
	measured, missed, err := f.measure(ctx, s)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	r := result{
		Figure: name, Reached: len(missed) == 0, Missed: strings.Join(missed, "; "), Broker: s.broker.Version,
		Type: c.kind, Seconds: seconds(time.Since(began)), Measured: measured,
	}
	if err := json.NewEncoder(os.Stdout).Encode(r); err != nil {
		return err
	}
	if !r.Reached {
		return fmt.Errorf("%s is missed: %s", name, r.Missed)
	}
	return nil
}

// setup is what a figure is measured on.
type setup struct {
	broker    *rig.Broker
	store     *rig.Store // it keeps what it has when it is killed
	began     time.Time
	published int // numbers the messages
}

func open(ctx context.Context, c config) (s *setup, err error) {
	s = &setup{began: time.Now()}
	if s.store, err = rig.OpenStore(ctx, "--appendonly", "yes"); err != nil {
		return nil, err
	}
	if s.broker, err = rig.OpenBroker(ctx, c.broker); err == nil {
		err = s.broker.Declare(ctx, topology.Spec{Queue: queue, Type: topology.Type(c.kind)})
	}
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func (s *setup) close() error {
	var errs []error
	if s.broker != nil {
		errs = append(errs, s.broker.Close())
	}
	return errors.Join(append(errs, s.store.Close())...)
}

// say reports progress.
func (s *setup) say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%6.1fs  %s\n", time.Since(s.began).Seconds(), fmt.Sprintf(format, args...))
}

// spec is a consumer process on this setup.
func (s *setup) spec(concurrency int) workerSpec {
	return workerSpec{AMQP: s.broker.URL, Redis: s.store.URL, Queue: queue, Concurrency: concurrency}
}

// dial opens a connection, which the caller closes.
func (s *setup) dial(context.Context) (*amqp.Connection, error) {
	return amqp.DialConfig(s.broker.URL, amqp.Config{Dial: amqp.DefaultDial(5 * time.Second), Heartbeat: heartbeat})
}

// producer returns a publisher that the caller closes.
func (s *setup) producer(context.Context) (*publisher.Publisher, error) {
	return publisher.New(s.dial, nil) //nolint:contextcheck // its dial is bounded by itself
}

// batch is how many messages are published together.
const batch = 500

// publish publishes messages with these bodies, confirmed, under ids of their own.
func (s *setup) publish(ctx context.Context, p *publisher.Publisher, bodies ...string) error {
	for some := range slices.Chunk(bodies, batch) {
		var msgs []publisher.Message
		for _, body := range some {
			s.published++
			msgs = append(msgs, publisher.Message{
				Key: queue, Publishing: amqp.Publishing{MessageId: id(s.published), Body: []byte(body)},
			})
		}
		if err := p.PublishAll(ctx, msgs); err != nil {
			return err
		}
	}
	return nil
}

// kept is what the records in the store add up to, and how many dead letters there are.
type kept struct {
	Records  int `json:"records"`
	Failures int `json:"failures"`
	Crashes  int `json:"crashes"`
	Most     int `json:"most_counted_of_one"`
	Open     int `json:"open_attempts"`
	dead     int
}

// count fails unless the queue has no message and no consumer.
func (s *setup) count(ctx context.Context) (k kept, err error) {
	q, err := s.broker.Queue(queue)
	if err != nil {
		return k, err
	}
	if q.Messages > 0 || q.Consumers > 0 {
		return k, fmt.Errorf("%d messages are ready and %d consumers there, when all was handled", q.Messages, q.Consumers)
	}
	if k.dead, err = s.broker.Depth(deadLetters); err != nil {
		return k, err
	}
	counts, err := counter.Dial(s.store.URL, nil)
	if err != nil {
		return k, err
	}
	defer counts.Close()
	at, err := amqp.ParseURI(s.broker.URL)
	for n := 1; err == nil && n <= s.published; n++ {
		var records []counter.Record
		records, err = counts.Admin().Get(ctx, at.Vhost, queue, id(n))
		for _, r := range records {
			k.add(r)
		}
	}
	return k, err
}

func (k *kept) add(r counter.Record) {
	k.Records++
	k.Failures += r.Failures
	k.Crashes += r.Crashes
	k.Most = max(k.Most, r.Failures+r.Crashes)
	if r.OpenToken != "" {
		k.Open++
	}
}

// id is that of the n-th message, from 1.
func id(n int) string { return fmt.Sprintf("m%07d", n) }

// seconds of a duration, to the millisecond.
func seconds(d time.Duration) float64 { return ratio(d.Seconds(), 1) }

// ratio to three digits; 0 of nothing.
func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return float64(int64(a/b*1000+0.5)) / 1000
}

// median of what of returns; of an even number the lower one.
func median[T any](all []T, of func(T) float64) float64 {
	values := make([]float64, len(all))
	for i, v := range all {
		values[i] = of(v)
	}
	slices.Sort(values)
	return values[(len(values)-1)/2]
}
