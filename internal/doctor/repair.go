package doctor

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/internal/inspect"
	"github.com/strikesmq/strikes/internal/management"
	"github.com/strikesmq/strikes/internal/queueinfo"
)

// ErrPlanChanged is wrapped by Carry if the repair would no longer do what its preview showed: broker or queue changed meanwhile.
var ErrPlanChanged = errors.New("the dead-letter route changed since the preview")

// Repair brings a broken dead-letter route back: it declares what is missing, and changes nothing that exists. The zero value does
// nothing.
type Repair struct {
	Broken   []inspect.Finding // what it repairs
	Exchange string            // an exchange to declare; empty: none
	Kind     string            // its type; empty: a person has to choose one of Kinds
	Kinds    []string          // types that Exchange can have
	Queue    string            // a quorum queue to declare; empty: none
	Bind     *Bind             // nil: none
	End      string            // description of the existing dead-letter queue; empty: none exists
	Refused  []string          // why nothing is done, and a person has to decide
}

// Bind is a binding to make.
type Bind struct{ Exchange, Queue, Key string }

// PlanRepair finds out what is missing between need.Queue and its dead-letter queue. kind is the type of a missing exchange. If kind is
// empty, it is fanout for the exchange that strikes declares, else not known. A Repair without Steps means that the route is complete,
// or that a person has to decide.
func PlanRepair(ctx context.Context, conn *amqp.Connection, need inspect.Need, kind string) (Repair, error) {
	f, findings, err := examineRoute(ctx, conn, need)
	if err != nil {
		return Repair{}, err
	}
	r := patient{f}.repair(findings)
	if r.Exchange != "" {
		r.choose(f, kind)
	}
	if r.Queue == "" {
		return r, nil
	}
	end, err := management.Look(ctx, conn, r.Queue, f.API)
	switch {
	case errors.Is(err, queueinfo.ErrNotFound):
		return r, nil
	case err != nil:
		return r, fmt.Errorf("inspect the dead-letter queue %q: %w", r.Queue, err)
	}
	r.End, r.Refused, r.Queue = describeEnd(end), unfitEnd(end.Queue), ""
	return r, nil
}

func examineRoute(ctx context.Context, conn *amqp.Connection, need inspect.Need) (inspect.Facts, []inspect.Finding, error) {
	g, err := inspect.NewGatherer(conn, need, true)
	if err != nil {
		return inspect.Facts{}, nil, err
	}
	f, err := g.Settled(ctx, inspect.Undecided(inspect.All, need))
	if err != nil {
		return f, nil, g.Failed("inspect", err)
	}
	return f, inspect.Judge(inspect.All, f, need), nil
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

// choose sets the type of the missing exchange, and the key of its binding. Neither the queue nor a policy shows the type.
func (r *Repair) choose(f inspect.Facts, kind string) {
	key, fixed := f.DeadLetterKey()
	r.Kinds = []string{"fanout", "topic"}
	if fixed { // else the keys of its dead letters are not known
		r.Kinds = append(r.Kinds, "direct")
	}
	switch {
	case slices.Contains(r.Kinds, kind):
		r.Kind = kind
	case f.OwnsExchange(r.Exchange):
		r.Kind = "fanout"
	}
	switch {
	case r.Kind == "topic" && !fixed:
		r.Bind.Key = "#"
	case r.Kind == "topic", r.Kind == "direct":
		r.Bind.Key = key
	}
}

// describeEnd describes an existing dead-letter queue.
func describeEnd(q management.Description) string {
	if q.Unread != "" {
		return fmt.Sprintf("the queue %q exists; its type and arguments cannot be seen: %s", q.Name, q.Unread)
	}
	text := fmt.Sprintf("the queue %q exists, of type %s", q.Name, q.Type)
	if len(q.Args) > 0 {
		text += fmt.Sprintf(", with the arguments %v", map[string]any(q.Args))
	}
	if q.PolicyName != "" {
		text += fmt.Sprintf(", under the policy %q", q.PolicyName)
	}
	return text
}

// unfitEnd returns why an existing queue cannot keep dead letters; empty: it can.
func unfitEnd(q queueinfo.Queue) (why []string) {
	add := func(is bool, format string, args ...any) {
		if is {
			why = append(why, fmt.Sprintf("the queue %q ", q.Name)+fmt.Sprintf(format, args...))
		}
	}
	ttl, expires := q.TTL()
	unused, deleted := q.Expires()
	further, on := q.DeadLetterExchange()
	add(q.Exclusive, "is exclusive to one connection")
	add(q.Type == queueinfo.Stream, "is a stream, from which nothing can be replayed or dropped")
	add(q.AutoDelete, "is deleted with its last consumer")
	add(q.Unread == "" && !q.Exclusive && !q.Durable, "is not durable: a restart of the broker deletes it")
	add(deleted, "is deleted after %d ms without a consumer", unused)
	add(expires, "keeps messages for %d ms", ttl)
	add(q.Limited() && q.DropsHead(), "holds %s at most, and then loses the oldest", q.LengthText())
	add(on, "dead-letters further, to the exchange %q", further)
	return why
}

// Steps say what Do does; none if it does nothing.
func (r Repair) Steps() (steps []string) {
	if len(r.Refused) > 0 || r.Exchange != "" && r.Kind == "" {
		return nil
	}
	add := func(is bool, format string, args ...any) {
		if is {
			steps = append(steps, fmt.Sprintf(format, args...))
		}
	}
	add(r.Exchange != "", "declare the %s exchange %q", r.Kind, r.Exchange)
	add(r.Queue != "", "declare the quorum queue %q", r.Queue)
	if b := r.Bind; b != nil {
		add(b.Key == "", "bind the queue %q to the exchange %q", b.Queue, b.Exchange)
		add(b.Key != "", "bind the queue %q to the exchange %q with the key %q", b.Queue, b.Exchange, b.Key)
	}
	return steps
}

// Token identifies the plan: plans with the same token take the same steps, for the same reasons.
func (r Repair) Token() string {
	text, _ := json.Marshal(r) //nolint:musttag // it is only hashed; of text alone, so it cannot fail
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:12])
}

// Carry plans a repair again and takes its steps if the plan has the token; else its error wraps ErrPlanChanged. Then it inspects the
// route: left has the remaining findings. The plan is returned with an error too.
func Carry(ctx context.Context, conn *amqp.Connection, need inspect.Need, kind, token string) (r Repair, left []inspect.Finding, err error) {
	if r, err = PlanRepair(ctx, conn, need, kind); err != nil {
		return r, nil, err
	}
	if r.Token() != token {
		return r, nil, ErrPlanChanged
	}
	if len(r.Steps()) == 0 {
		return r, r.Broken, nil
	}
	if err := r.Do(ctx, conn); err != nil {
		return r, nil, err
	}
	left, err = brokenYet(ctx, conn, need)
	return r, left, err
}

const (
	// verifyFor is how long the management API may take to show what was declared.
	verifyFor   = 6 * time.Second
	verifyEvery = 300 * time.Millisecond
)

// brokenYet waits until nothing is wrong with a dead-letter route, for verifyFor at most, and returns what still is.
func brokenYet(ctx context.Context, conn *amqp.Connection, need inspect.Need) ([]inspect.Finding, error) {
	tick := time.NewTicker(verifyEvery)
	defer tick.Stop()
	for begun := time.Now(); ; {
		_, findings, err := examineRoute(ctx, conn, need)
		left := slices.DeleteFunc(findings, func(f inspect.Finding) bool {
			return f.Severity != inspect.Error || !strings.Contains(f.Code, "dead-letter")
		})
		if err != nil || len(left) == 0 || time.Since(begun) > verifyFor {
			return left, err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return left, ctx.Err()
		}
	}
}

// Do takes the Steps in turn. It is safe to repeat after an error.
func (r Repair) Do(ctx context.Context, conn *amqp.Connection) error {
	if len(r.Steps()) == 0 {
		return nil
	}
	ch, err := conn.Channel()
	if err != nil {
		return err
	}
	defer func() { _ = ch.Close() }()
	if r.Exchange != "" {
		if err := ch.ExchangeDeclare(r.Exchange, r.Kind, true, false, false, false, nil); err != nil {
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
