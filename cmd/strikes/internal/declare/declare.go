// Package declare declares a queue with its dead-letter route and its bindings, as the command declare does.
package declare

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/connect"
	"github.com/strikesmq/strikes/cmd/strikes/internal/jsonl"
	"github.com/strikesmq/strikes/cmd/strikes/internal/term"
	"github.com/strikesmq/strikes/internal/shell"
	"github.com/strikesmq/strikes/topology"
)

// Command is one run of declare.
type Command struct {
	cli.Streams
	connect.Flags

	Type               string
	SingleActive, JSON bool
	DeliveryLimit      int
	Bind               []string
	ExchangeType       string
	DelayQueues        bool
}

// declared is what declare prints.
type declared struct {
	Queue              string `json:"queue"`
	Type               string `json:"type"`
	DeadLetterExchange string `json:"dead_letter_exchange"`
	DeadLetterQueue    string `json:"dead_letter_queue"`

	Bindings    []binding `json:"bindings,omitempty"`
	DelayQueues bool      `json:"delay_queues,omitempty"`
}

type binding struct {
	Exchange string `json:"exchange"`
	Key      string `json:"key"`
}

// Run declares a queue.
func (c *Command) Run(ctx context.Context, queue string) error {
	kind, err := QueueType(c.Type)
	if err != nil {
		return err
	}
	if c.DelayQueues && c.SingleActive {
		return cli.Misusef("--delay-queues cannot be used with --single-active-consumer: a delayed message would be overtaken")
	}
	spec := topology.Spec{
		Queue: queue, Type: kind, SingleActiveConsumer: c.SingleActive,
		DeadLetterExchange: queue + ".dlx", DeadLetterQueue: queue + ".dlq", DeliveryLimit: c.DeliveryLimit,
		ExchangeType: c.ExchangeType, DelayQueues: c.DelayQueues,
	}
	done := declared{Queue: spec.Queue, Type: string(kind), DeadLetterExchange: spec.DeadLetterExchange,
		DeadLetterQueue: spec.DeadLetterQueue, DelayQueues: c.DelayQueues}
	for _, text := range c.Bind {
		bind, hasKey := parseBinding(text)
		if bind.Exchange == "" || !hasKey && (c.ExchangeType == amqp.ExchangeTopic || c.ExchangeType == amqp.ExchangeDirect) {
			return cli.Refused("bind", text, "EXCHANGE:KEY")
		}
		spec.Bindings = append(spec.Bindings, topology.Binding{Exchange: bind.Exchange, Key: bind.Key})
		done.Bindings = append(done.Bindings, bind)
	}
	if err := spec.Validate(); err != nil {
		return cli.Misuse(err)
	}
	b, err := c.Broker()
	if err != nil {
		return err
	}
	if err := b.With(ctx, func(conn *amqp.Connection) error { return topology.Declare(ctx, conn, spec) }); err != nil {
		var reply *amqp.Error
		if errors.As(err, &reply) && reply.Code == amqp.PreconditionFailed && strings.Contains(reply.Reason,
			"for queue '"+queue+"'") {
			return fmt.Errorf("%w\nto repair the queue as it is, run: strikes doctor %s --fix", err, shell.Operands(queue))
		}
		return err
	}
	if c.JSON {
		return jsonl.NewEncoder(c.Out).Encode(done)
	}
	return done.print(c.Out)
}

// parseBinding reads EXCHANGE:KEY. A backslash in EXCHANGE takes the next character as it is, such as a colon. It
// reports whether there is a key, which may be empty.
func parseBinding(text string) (b binding, hasKey bool) {
	var exchange []byte
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] == ':':
			return binding{string(exchange), text[i+1:]}, true
		case text[i] == '\\' && i+1 < len(text):
			i++
		}
		exchange = append(exchange, text[i])
	}
	return binding{Exchange: string(exchange)}, false
}

// QueueType reads a type of queue.
func QueueType(name string) (topology.Type, error) {
	kind := topology.Type(name)
	if kind != topology.Quorum && kind != topology.Classic {
		return "", cli.Refused("type", name, "quorum or classic")
	}
	return kind, nil
}

func (d declared) print(w io.Writer) error {
	fmt.Fprintf(w, "%s queue %s\n", d.Type, term.Shown(d.Queue))
	for _, b := range d.Bindings {
		fmt.Fprintf(w, "messages from exchange %s, key %s\n", term.Shown(b.Exchange), term.Shown(b.Key))
	}
	if d.DelayQueues {
		fmt.Fprintln(w, "long delays in the buckets strikes.delay.1m, 10m, 1h, 6h and 24h")
	}
	_, err := fmt.Fprintf(w, "dead letters to exchange %s, queue %s\n", term.Shown(d.DeadLetterExchange),
		term.Shown(d.DeadLetterQueue))
	return err
}
