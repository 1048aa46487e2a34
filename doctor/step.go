package doctor

import (
	"context"
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/internal/broker"
)

// Step is one change of the broker. It is safe to repeat.
type Step struct {
	text    string
	declare func(*amqp.Channel) error // nil: only the management API can
	api     *broker.API               // nil: it is not known
	request broker.Request
}

// String describes the step, such as `declare the quorum queue "orders.dlq"`.
func (s Step) String() string { return s.text }

// Curl is the step as a line for a shell; empty if the management API is not known.
func (s Step) Curl() string { return s.api.Curl(s.request) }

// Do takes the step: over AMQP, or through the management API if AMQP cannot.
func (s Step) Do(ctx context.Context, conn *amqp.Connection) error {
	var err error
	if s.declare != nil {
		err = broker.OnChannel(ctx, conn, s.declare)
	} else {
		err = s.api.Send(ctx, s.request)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", s.text, err)
	}
	return nil
}

// step returns a step of the plan for p.
func (p patient) step(declare func(*amqp.Channel) error, r broker.Request, format string, args ...any) Step {
	return Step{fmt.Sprintf(format, args...), declare, p.API, r}
}

func (p patient) declareExchange(name string) Step {
	return p.step(func(ch *amqp.Channel) error {
		return ch.ExchangeDeclare(name, amqp.ExchangeFanout, true, false, false, false, nil)
	}, broker.Request{Method: "PUT", Body: map[string]any{"type": amqp.ExchangeFanout, "durable": true},
		Path: []string{"exchanges", p.VHost, name}},
		"declare the fanout exchange %q", name)
}

func (p patient) declareQueue(name string) Step {
	args := broker.DeadLetterArguments()
	return p.step(func(ch *amqp.Channel) error {
		_, err := ch.QueueDeclare(name, true, false, false, false, args)
		return err
	}, broker.Request{Method: "PUT", Body: map[string]any{"durable": true, "arguments": args},
		Path: []string{"queues", p.VHost, name}},
		"declare the quorum queue %q", name)
}

func (p patient) bind(queue, exchange, key string) Step {
	text := fmt.Sprintf("bind the queue %q to the exchange %q", queue, exchange)
	if key != "" {
		text += fmt.Sprintf(" with the key %q", key)
	}
	return p.step(func(ch *amqp.Channel) error { return ch.QueueBind(queue, key, exchange, false, nil) },
		broker.Request{Method: "POST", Body: map[string]any{"routing_key": key},
			Path: []string{"bindings", p.VHost, "e", exchange, "q", queue}},
		"%s", text)
}
