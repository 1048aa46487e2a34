package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/jsonl"
	"github.com/strikesmq/strikes/cmd/strikes/internal/render"
	"github.com/strikesmq/strikes/cmd/strikes/internal/term"
	"github.com/strikesmq/strikes/deadletter"
	"github.com/strikesmq/strikes/publisher"
)

func (a *app) replayDead(ctx context.Context, o deadOptions, queue string, ids []string) error {
	r, err := replaySettings(o, ids)
	if err != nil {
		return err
	}
	g, err := a.graveyardOf(ctx, o, queue)
	if err != nil {
		return err
	}
	defer g.close()
	if err := r.Check(g.dead.Name); err != nil {
		return g.fail(err)
	}
	to := "the queues in which they died"
	if r.Target != nil {
		to = targetText(*r.Target)
	}
	ok, err := a.agreed(ctx, o, g, deadVerb{"replay", "replayed", " to " + to, r.Filter, r.Max})
	if err != nil || !ok {
		return err
	}
	p := term.NewProgress(a.Err)
	g.dead.Progress = showing(p)
	g.mind(a.Err)
	t := &deadTold{app: a, verb: "replayed", want: seek(r.Filter.IDs)}
	if o.json {
		t.json = jsonl.NewEncoder(a.Out)
	}
	r.OnMessage = t.tell
	result, err := g.dead.Replay(ctx, r)
	p.Finish()
	fmt.Fprintln(a.Err, replaySummary(r, result)+t.why())
	g.untold(a.Err, result.RecordsErr)
	err = cmp.Or(err, t.unsaid)
	if errors.Is(err, publisher.ErrUnroutable) {
		err = t.noQueue(g, r.Target, err)
	}
	if err != nil {
		return g.fail(err)
	}
	if result.Done+result.Left == 0 {
		return g.nothing(t.want)
	}
	if result.Left > 0 {
		err = t.noQueue(g, r.Target, fmt.Errorf("left in queue %q: %s", g.dead.Name, term.Plural(result.Left, "dead letter")))
	}
	if reached(r.Max, result.Done+result.Left) {
		return err
	}
	return t.want.also(err, g.dead.Name)
}

func targetText(t deadletter.Target) string {
	if t.Key == "" {
		return fmt.Sprintf("exchange %s, each with its own key", term.Shown(t.Exchange))
	}
	return fmt.Sprintf("exchange %s, key %s", term.Shown(t.Exchange), term.Shown(t.Key))
}

func replaySettings(o deadOptions, ids []string) (deadletter.Replay, error) {
	f, err := chosen(o, ids)
	if err != nil {
		return deadletter.Replay{}, err
	}
	r := deadletter.Replay{
		Filter: f, Window: o.window, Max: o.max, Rate: o.rate, StopAfter: o.stopAfter, Watch: o.watch,
	}
	switch {
	case r.Window < 1 || r.Window > 1000:
		return r, cli.Refused("window", r.Window, "1 to 1000")
	case !(r.Rate >= 0): // as NaN is not
		return r, cli.Refused("rate", r.Rate, "0 or more")
	case r.StopAfter < 0 || r.Watch < 0:
		return r, cli.Misusef("--stop-after and --watch must not be negative")
	}
	if r.StopAfter == 0 {
		r.StopAfter = -1
	}
	if o.Changed("exchange") || o.Changed("key") {
		r.Target = &deadletter.Target{Exchange: o.exchange, Key: o.key}
		if *r.Target == (deadletter.Target{}) {
			return r, cli.Misusef("--exchange and --key are both empty")
		}
	}
	return r, nil
}

// deadTold tells of each dead letter: all of them in JSON, else those that are left.
type deadTold struct {
	app  *app
	json *json.Encoder
	verb string
	left int
	want *sought

	unsaid error // why not all was told

	strays, unroutable int // of those left
}

// leftShown is how many of those that are left are named.
const leftShown = 20

func (t *deadTold) tell(l *deadletter.Message, err error) {
	t.want.saw(l)
	switch {
	case errors.Is(err, deadletter.ErrNoOrigin):
		t.strays++
	case errors.Is(err, publisher.ErrUnroutable):
		t.unroutable++
	}
	if t.json != nil {
		out := map[string]any{"id": l.ID, "fingerprint": l.Fingerprint, t.verb: err == nil, "redelivered": l.Redelivered}
		if err != nil {
			out["error"] = err.Error()
		}
		t.unsaid = cmp.Or(t.unsaid, t.json.Encode(out)) // of a full disk; one who reads no more ends the process by SIGPIPE
		return
	}
	ends := !errors.Is(err, deadletter.ErrNoOrigin) && !errors.Is(err, publisher.ErrUnroutable) && !errors.Is(err, publisher.ErrInvalid)
	if err == nil || ends { // what ends the replay is told at its end
		return
	}
	if t.left++; t.left <= leftShown {
		fmt.Fprintf(t.app.Err, "not replayed: %s\n", term.Printable(err.Error(), ""))
	}
}

// noQueue makes an error a wrong argument if all were to go to one queue, and that is not there.
func (t *deadTold) noQueue(g *graveyard, to *deadletter.Target, err error) error {
	if t.unroutable == 0 || to == nil || to.Exchange != "" {
		return err
	}
	return cli.Misusef("there is no queue %q in virtual host %q (strikes declare makes one): %w", to.Key, g.broker.VHost, err)
}

// why tells why some were left, and what to do.
func (t *deadTold) why() string {
	var b strings.Builder
	if t.strays > 0 {
		fmt.Fprintf(&b, "\n%d left that do not say where they died: --key QUEUE or --exchange EXCHANGE sends them somewhere", t.strays)
	}
	if t.unroutable > 0 {
		fmt.Fprintf(&b, "\n%d left whose destination is not there, or leads to no queue", t.unroutable)
	}
	return b.String()
}

// cutOff reports whether it looks as if a replay before this one had been cut off. That one had two windows in hand, of the
// same size if it was the same command; and of what it did not have, some was there. A look hands out everything, and
// RabbitMQ 4.0 says of each dead letter of a quorum queue that it was.
func cutOff(r deadletter.Replay, did deadletter.Result) bool {
	return r.Filter.Everything() && did.PossibleDuplicateCount > 0 && did.PossibleDuplicateCount < did.Done && did.PossibleDuplicateCount <= 2*r.Window
}

func replaySummary(of deadletter.Replay, r deadletter.Result) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d replayed", r.Done)
	if r.Left > 0 {
		fmt.Fprintf(&b, ", %d left", r.Left)
	}
	name(&b, "in doubt: published or not, and maybe still dead letters", len(r.Undecided), r.Undecided)
	if cutOff(of, r) {
		name(&b, "had been handed out before: a replay that was cut off may have published the last of them too", r.PossibleDuplicateCount, r.PossibleDuplicates)
	}
	name(&b, "failed again", len(r.FailedAgain), r.FailedAgain)
	return b.String()
}

// name names some messages that something is the matter with.
func name(b *strings.Builder, matter string, n int, ids []string) {
	if n == 0 {
		return
	}
	fmt.Fprintf(b, "\n%d %s:", n, matter)
	for i, id := range ids {
		if i == 5 {
			b.WriteString(" …")
			break
		}
		b.WriteString(" " + term.Shown(id))
	}
}

// deadVerb is what is about to be done, for the question.
type deadVerb struct {
	verb, done, where string
	filter            deadletter.Filter
	max               int
}

// agreed asks, or only says what would be done: then it is false.
func (a *app) agreed(ctx context.Context, o deadOptions, g *graveyard, v deadVerb) (bool, error) {
	dry, yes := o.dryRun, o.yes
	if yes && !dry {
		return true, nil
	}
	if !dry && (!term.IsTerminal(a.In) || !term.IsTerminal(a.Err)) {
		return false, a.Confirm(ctx, false, "") // which refuses
	}
	want := seek(v.filter.IDs)
	n, err := a.countDead(ctx, o, g, v, want)
	if err != nil {
		return false, g.fail(err)
	}
	if n == 0 {
		return false, g.nothing(want)
	}
	if dry {
		fmt.Fprintf(a.Err, "%d would be %s%s\n", n, v.done, v.where)
		if reached(v.max, n) {
			return false, nil
		}
		return false, want.missing(g.dead.Name)
	}
	question := fmt.Sprintf("%s %d dead letters of queue %s%s?", strings.ToUpper(v.verb[:1])+v.verb[1:], n, g.where(), v.where)
	return true, a.Confirm(ctx, false, question)
}

// countDead counts, and with --dry-run lists, what is meant.
func (a *app) countDead(ctx context.Context, o deadOptions, g *graveyard, v deadVerb, want *sought) (n int, err error) {
	list := o.dryRun && g.dead.Handling.Hold
	if v.filter.Everything() && !list {
		n, err = g.dead.Depth(ctx)
		if v.max > 0 {
			n = min(n, v.max)
		}
		return n, err
	}
	out := render.DeadLetters(a.Out, o.json)
	for l, err := range g.dead.Browse(ctx, v.filter) {
		if err != nil {
			return n, err
		}
		want.saw(l)
		if list {
			err = out.Row(l)
		}
		if n++; err != nil || n == v.max {
			return n, errors.Join(err, out.Flush())
		}
	}
	return n, out.Flush()
}
