package ops

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/internal/inspect"
	"github.com/strikesmq/strikes/internal/pause"
	"github.com/strikesmq/strikes/internal/printable"
	"github.com/strikesmq/strikes/internal/shell"
)

// Pause is the pause of a queue, or a change of it that an operator is about to make.
type Pause struct {
	VHost string `json:"vhost"`
	Queue string `json:"queue"`
	counter.Note
	Paused    bool       `json:"paused"`           // once Done
	Before    bool       `json:"before,omitempty"` // it was so before: nothing is done
	Done      bool       `json:"done"`
	Consumers []Consumer `json:"consumers,omitempty"` // processes that consume the queue
	Breaker   *Breaker   `json:"breaker,omitempty"`   // that a resume closes
	Risk      string     `json:"risk,omitempty"`      // of a pause: how the broker deletes the queue, or may delete it

	why     counter.Note
	wait    time.Duration
	count   time.Duration // for which every failure counts after a resume
	holding string        // the exhausted message that pauses the queue again after a resume
}

// Consumer is a process that consumes a queue.
type Consumer struct {
	Consumer string        `json:"consumer"`
	Stopped  bool          `json:"stopped"`          // it takes no deliveries and holds none
	Seen     time.Time     `json:"seen"`             // when it last read whether the queue is paused
	Silent   bool          `json:"silent,omitempty"` // its last read is long ago: it is frozen or dead, or cut off
	Ago      time.Duration `json:"-"`                // since then
}

// missed is how long after its last read a process counts as silent. It reads once a second.
const missed = 3 * time.Second

// Silence returns a text that says how long a process has not asked the store; empty: it asks.
func (c Consumer) Silence() string {
	if !c.Silent {
		return ""
	}
	return fmt.Sprintf("it has not asked the store for %s: it is frozen or dead, or does not reach the store",
		printable.Rough(c.Ago))
}

// planPause finds whether the queue is paused already, by whom and why.
func planPause(ctx context.Context, q *Queue, a Ask) (Plan, error) {
	p := &Pause{VHost: q.VHost, Queue: q.Name, Paused: true, Note: a.Note, why: a.Note, wait: a.Wait}
	state, err := q.Store.State(ctx, q.VHost, q.Name)
	if paused := state.Paused; paused != nil && paused.Holding == nil { // else the pause becomes the operator's
		p.Before, p.Note = true, paused.Note
	}
	if errors.Is(err, counter.ErrForeign) { // such as the limit; a pause needs its own key alone
		err = nil
	}
	if err == nil && !p.Before && q.Unconsumed != nil {
		var unknown error
		p.Risk, unknown = q.Unconsumed(ctx)
		switch {
		case broker.MissingVHost(unknown), errors.Is(unknown, broker.ErrNotFound): // a typing error
			return nil, unknown
		case unknown != nil:
			p.Risk = fmt.Sprintf("%v; if queue %s is auto-delete or expires, the broker deletes it with its messages once its "+
				"consumers stop", unknown, printable.Name(q.Name))
		}
		err = ctx.Err()
	}
	return p, err
}

// Unconsumed says how the broker deletes need.Queue, or one of its partitions, with its messages once the consumers
// stop; empty: it does not. Without need.Management it sees no policy. Without such a queue it returns
// broker.ErrNotFound.
func Unconsumed(ctx context.Context, conn *amqp.Connection, need inspect.Need) (how string, err error) {
	api, err := need.API()
	if err != nil {
		return "", err
	}
	look := func(name string) error {
		d, err := broker.Look(ctx, conn, name, api)
		if why := inspect.Unconsumed(d.Queue); len(why) > 0 {
			how = fmt.Sprintf("queue %s %s", printable.Name(name), why[0])
		}
		if err == nil && d.Unread != "" {
			err = errors.New(d.Unread)
		}
		return err
	}
	if err = look(need.Queue); !errors.Is(err, broker.ErrNotFound) {
		return how, err
	}
	n, err := broker.PartitionsOf(ctx, conn, need.Queue)
	if n == 0 && err == nil {
		err = fmt.Errorf("%s: %w", printable.Name(need.Queue), broker.ErrNotFound)
	}
	for i := 0; i < n && how == "" && err == nil; i++ {
		if err = look(broker.Partition(need.Queue, i)); errors.Is(err, broker.ErrNotFound) {
			err = nil
		}
	}
	return how, err
}

// planResume finds the pause that a resume ends, and the breaker that it closes.
func planResume(ctx context.Context, q *Queue, a Ask) (Plan, error) {
	p := &Pause{VHost: q.VHost, Queue: q.Name, why: a.Note, count: a.Count}
	state, err := q.Store.State(ctx, q.VHost, q.Name)
	paused := state.Paused
	if p.Breaker = breakerOf(state.Breaker, state.Time); p.Breaker == nil && a.Count > 0 {
		p.Breaker = new(Breaker) // Patience may keep failures from being counted though it is closed
	}
	switch {
	case err != nil && (paused == nil && p.Breaker == nil || !errors.Is(err, counter.ErrForeign)):
		return nil, err
	case paused != nil:
		if p.Note = paused.Note; paused.Holding != nil {
			p.holding = paused.Holding.ID
		}
	case p.Breaker == nil:
		return nil, noneError{fmt.Sprintf("queue %q in virtual host %q is not paused, and its breaker is closed", q.Name,
			q.VHost)}
	}
	return p, nil
}

// Question asks only before the broker may delete the queue.
func (p *Pause) Question(int) string {
	if p.Risk == "" {
		return ""
	}
	return strings.ToUpper(p.Risk[:1]) + p.Risk[1:] + ". Pause it?"
}

// Do pauses or resumes the queue, and waits as long as it was asked to until the consumers of a paused one stop.
func (p *Pause) Do(ctx context.Context, q *Queue) (err error) {
	verb, subject, changed := VerbResume, "", false
	if p.Breaker != nil {
		if p.count > 0 {
			subject = "--count " + p.count.String()
		}
		p.Before = p.Note == counter.Note{} // there is no pause to end
		changed, err = q.Store.ResumeBreaker(ctx, q.VHost, q.Name, p.count)
		if !changed && err == nil { // it closed meanwhile
			p.Breaker = nil
		}
	}
	if err == nil && !p.Before {
		change, already := q.Store.Resume, counter.ErrNotPaused
		if p.Paused {
			verb, change, already = VerbPause, q.Store.Pause, counter.ErrPaused
		}
		if err = change(ctx, q.VHost, q.Name, p.why); errors.Is(err, already) {
			p.Before, err = true, nil
			if state, _ := q.Store.State(ctx, q.VHost, q.Name); state.Paused != nil { // by another operator meanwhile
				p.Note = state.Paused.Note
			}
		} else {
			changed = true
		}
	}
	if changed {
		if err = q.audited(ctx, verb, subject, p.why, 0, err); err != nil {
			return err
		}
	}
	p.Done = true
	for until := time.Now().Add(p.wait); p.Paused; {
		state, err := q.Store.State(ctx, q.VHost, q.Name)
		if err != nil && len(state.Consumers) == 0 {
			return fmt.Errorf("paused, but the store does not say which consumers have stopped: %w", err)
		}
		p.Consumers = seen(state.Consumers, state.Time)
		if len(p.Running()) == 0 || !time.Now().Before(until) || !pause.For(ctx, 100*time.Millisecond) {
			return nil
		}
	}
	return nil
}

// Running are the consumers that have not stopped.
func (p *Pause) Running() []Consumer {
	return slices.DeleteFunc(slices.Clone(p.Consumers), func(c Consumer) bool { return c.Stopped })
}

// Text says whether the queue is paused, by whom and why, and how many consumers have stopped.
func (p *Pause) Text() string {
	queue, note := printable.Name(p.Queue), p.Note.Text()
	if p.holding != "" {
		note += fmt.Sprintf("; message %s pauses it again unless you decide about it: strikes status %s names the commands",
			printable.Name(p.holding), shell.Operands(p.Queue))
	}
	switch {
	case p.Breaker != nil && p.Note == counter.Note{}:
		return queue + ": " + p.breakerText()
	case p.Breaker != nil:
		ended := *p
		ended.Breaker, ended.count = nil, 0
		return ended.Text() + "; " + p.breakerText()
	case !p.Paused && p.Before:
		return queue + ": is resumed already"
	case !p.Paused && p.Done:
		return queue + ": resumed; it was paused" + note
	case !p.Paused:
		return queue + ": would be resumed; it has been paused since" + note
	case p.Before:
		return queue + ": is paused already," + note + p.stopped()
	case p.Done:
		return queue + ": paused" + p.stopped()
	}
	return strings.TrimSuffix(queue+": would be paused; "+p.Risk, "; ")
}

// breakerText describes the effect of a resume on the breaker, and on the time for which every failure counts.
func (p *Pause) breakerText() (text string) {
	closed, counts, ends := "would be closed", "would count", "would end"
	if p.Done {
		closed, counts, ends = "is closed", "counts", "has ended"
	}
	if p.Breaker.Stops() {
		text = fmt.Sprintf("its breaker %s; no message had succeeded since %s; ", closed,
			p.Breaker.Since.UTC().Format(time.RFC3339))
	}
	if p.count > 0 {
		text += fmt.Sprintf("every failure %s for %v", counts, p.count)
	} else if !p.Breaker.Stops() {
		text = "the time for which every failure counts " + ends
	}
	return strings.TrimSuffix(text, "; ")
}

func (p *Pause) stopped() string {
	switch {
	case !p.Done:
		return ""
	case len(p.Consumers) == 0:
		return "; no process consumes it"
	}
	return fmt.Sprintf("; %d of %s stopped", len(p.Consumers)-len(p.Running()),
		printable.Plural(len(p.Consumers), "process"))
}

// seen returns the processes that consume a queue, as they are now.
func seen(states []counter.ConsumerState, now time.Time) (out []Consumer) {
	for _, s := range states {
		ago := max(now.Sub(s.Seen), 0)
		out = append(out, Consumer{Consumer: s.Consumer, Stopped: s.Paused, Seen: s.Seen, Silent: ago > missed, Ago: ago})
	}
	return out
}
