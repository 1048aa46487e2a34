package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/strikesmq/strikes/topology"
)

const (
	queue       = "figures"
	deadLetters = queue + ".dlq"
)

// config is what the flags say that all figures have.
type config struct {
	kind        string
	amqp        string
	brokerKill  string
	brokerStart string
}

func (c *config) flags(f *flag.FlagSet) {
	f.StringVar(&c.kind, "type", string(topology.Quorum), "of the queue: quorum or classic")
	f.StringVar(&c.amqp, "amqp", "", "`URL` of a RabbitMQ to use; if empty, a private one is started. The queue figures "+
		"must not exist")
	f.StringVar(&c.brokerKill, "broker-kill", "", "`command` that kills the RabbitMQ at -amqp, for drain")
	f.StringVar(&c.brokerStart, "broker-start", "", "`command` that starts it again")
}

func (c *config) validate(rest []string) error {
	switch {
	case len(rest) > 0:
		return fmt.Errorf("unknown argument %q", rest[0])
	case c.kind != string(topology.Quorum) && c.kind != string(topology.Classic):
		return fmt.Errorf("-type is %q: quorum or classic", c.kind)
	case (c.brokerKill == "") != (c.brokerStart == "") || c.brokerKill != "" && c.amqp == "":
		return errors.New("-amqp, -broker-kill and -broker-start go together")
	}
	return nil
}

// setup is what a figure is measured on: a broker with the queue, a store, and a producer.
type setup struct {
	broker *broker
	store  *store
	began  time.Time
}

func open(ctx context.Context, c config) (s *setup, err error) {
	s = &setup{began: time.Now()}
	if s.store, err = openStore(ctx); err != nil {
		return nil, err
	}
	if s.broker, err = openBroker(ctx, c); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func (s *setup) close() error {
	var errs []error
	if s.broker != nil {
		errs = append(errs, s.broker.close())
	}
	return errors.Join(append(errs, s.store.close())...)
}

// say reports progress.
func (s *setup) say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%6.1fs  %s\n", time.Since(s.began).Seconds(), fmt.Sprintf(format, args...))
}

// spec is a consumer process on this setup.
func (s *setup) spec(concurrency int) workerSpec {
	return workerSpec{AMQP: s.broker.URL, Redis: s.store.URL, Queue: queue, Concurrency: concurrency}
}
