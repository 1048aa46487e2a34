package doctor

import (
	"context"
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/internal/inspect"
	"github.com/strikesmq/strikes/internal/queueinfo"
)

// Repair brings a broken dead-letter route back: it declares what is missing, and changes nothing that exists. The zero value does
// nothing.
type Repair struct {
	Broken   []inspect.Finding // what it repairs
	Exchange string            // a fanout exchange to declare; empty: none
	Queue    string            // a quorum queue to declare; empty: none
	Bind     *Bind             // nil: none
}

// Bind is a binding to make.
type Bind struct{ Exchange, Queue, Key string }

// PlanRepair finds out what is missing between need.Queue and its dead-letter queue. A Repair without Steps says that the route is
// whole, or that a person has to decide.
func PlanRepair(ctx context.Context, conn *amqp.Connection, need inspect.Need) (Repair, error) {
	g, err := inspect.NewGatherer(conn, need, true)
	if err != nil {
		return Repair{}, err
	}
	f, err := g.Settled(ctx, inspect.Undecided(inspect.All, need))
	if err != nil {
		return Repair{}, g.Failed("inspect", err)
	}
	r := patient{f}.repair(inspect.Judge(inspect.All, f, need))
	if r.Queue == "" {
		return r, nil
	}
	exists, _, err := queueinfo.Find(ctx, conn, r.Queue)
	if exists == queueinfo.Yes {
		r.Queue = ""
	}
	return r, queueinfo.UnlessRefused(err)
}

func (p patient) repair(findings []inspect.Finding) Repair {
	exchange, _ := p.DeadLetterExchange()
	key, fixed := p.DeadLetterKey()
	end := queueinfo.DeadLetterQueueFor(p.Name)
	for _, f := range findings {
		r := Repair{Broken: []inspect.Finding{f}}
		switch {
		case f.Code == inspect.CodeExchangeMissing:
			r.Exchange, r.Queue, r.Bind = exchange, end, &Bind{exchange, end, ""}
		case f.Code == inspect.CodeQueueMissing:
			r.Queue = key
		case f.Code == inspect.CodeUnbound && p.Exchange.Alternate == "" && (p.Exchange.Kind == "fanout" || fixed && p.Exchange.Kind == "direct"):
			r.Queue, r.Bind = end, &Bind{exchange, end, key}
		default:
			continue
		}
		return r
	}
	return Repair{}
}

// Steps say what Do does; none if it does nothing.
func (r Repair) Steps() (steps []string) {
	add := func(is bool, format string, args ...any) {
		if is {
			steps = append(steps, fmt.Sprintf(format, args...))
		}
	}
	add(r.Exchange != "", "declare the fanout exchange %q", r.Exchange)
	add(r.Queue != "", "declare the quorum queue %q", r.Queue)
	if b := r.Bind; b != nil {
		add(b.Key == "", "bind the queue %q to the exchange %q", b.Queue, b.Exchange)
		add(b.Key != "", "bind the queue %q to the exchange %q with the key %q", b.Queue, b.Exchange, b.Key)
	}
	return steps
}

// Do takes the steps in turn. It is safe to repeat after an error.
func (r Repair) Do(ctx context.Context, conn *amqp.Connection) error {
	ch, err := conn.Channel()
	if err != nil {
		return err
	}
	defer func() { _ = ch.Close() }()
	if r.Exchange != "" {
		if err := ch.ExchangeDeclare(r.Exchange, "fanout", true, false, false, false, nil); err != nil {
			return fmt.Errorf("declare the exchange %q: %w", r.Exchange, err)
		}
	}
	if r.Queue != "" {
		if _, err := ch.QueueDeclare(r.Queue, true, false, false, false, queueinfo.DeadLetterArguments()); err != nil {
			return fmt.Errorf("declare the queue %q: %w", r.Queue, err)
		}
	}
	if b := r.Bind; b != nil {
		if err := ch.QueueBind(b.Queue, b.Key, b.Exchange, false, nil); err != nil {
			return fmt.Errorf("bind the queue %q to the exchange %q: %w", b.Queue, b.Exchange, err)
		}
	}
	return ctx.Err()
}
