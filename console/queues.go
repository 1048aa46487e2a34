package console

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/strikesmq/strikes/internal/inspect"
	"github.com/strikesmq/strikes/internal/panics"
	"github.com/strikesmq/strikes/internal/printable"
	"github.com/strikesmq/strikes/ops"
)

// line is a queue of the first page.
type line struct {
	ops.Status
	Now   time.Time
	Cause *cause            // nil: not known
	Found []inspect.Finding // errors that the last examination found, and lists of the broker do not show
}

// Failing is the number of failing messages without the forgotten ones.
func (l line) Failing() int { return failing(l.Status) }

func failing(s ops.Status) int { return s.Failing() - s.Forgotten }

// unheard reports whether the broker has not said its half.
func unheard(s ops.Status) bool { return s.Ready == nil && !s.Absent }

// Facts are the defects of a queue, the worst first.
func (l line) Facts() (all []ops.Fact) {
	for _, f := range l.Found {
		all = append(all, ops.Fact{Text: ops.InShort(f), Class: "bad"})
	}
	if l.Unknown == "" && !l.StoreSeen {
		all = append(all, ops.Fact{Text: "not known: the store has not answered"})
	}
	if unheard(l.Status) {
		all = append(all, ops.Fact{Text: "not known: ready messages and consumers"})
	}
	return append(all, l.Status.Facts(l.Now)...)
}

// overview asks for all queues. Without the store it fails, unless there was no earlier overview that had its half.
func (c *Console) overview(ctx context.Context) (ops.Overview, error) {
	all, err := c.broker.All(ctx)
	switch {
	case err != nil:
		return ops.Overview{}, err
	case len(all.Queues) == 0 && all.Failed() != nil:
		return ops.Overview{}, all.Failed()
	case all.Store != nil && c.storeSeen:
		return ops.Overview{}, all.Store
	case all.Store != nil:
		return all, nil
	}
	c.storeSeen = true
	for _, s := range all.Queues {
		c.history.add(s)
	}
	return all, nil
}

type queuesView struct {
	answer[ops.Overview]
	Shown    []line
	Find     string
	More     string
	Sum      sums
	Examined examination
}

// queuesPerPage keeps a page light.
const queuesPerPage = 100

func (c *Console) queuesPage(r *http.Request) (page, error) {
	a := ask(r, c.all, overviewAge)
	v := queuesView{answer: a, Find: printable.Text(r.FormValue("find"), ""), Examined: c.examined()}
	from, _ := strconv.Atoi(r.FormValue("from"))
	found := slices.DeleteFunc(slices.Clone(a.Value.Queues), func(s ops.Status) bool {
		return !strings.Contains(strings.ToLower(s.Queue), strings.ToLower(v.Find))
	})
	slices.SortStableFunc(found, func(a, b ops.Status) int {
		return cmp.Compare(v.Examined.rank(a), v.Examined.rank(b))
	})
	from = min(max(from, 0), len(found))
	causes := c.causes.peek(overviewAge).Value // newer ones are for the next update
	for _, s := range found[from:min(from+queuesPerPage, len(found))] {
		v.Shown = append(v.Shown, line{s, a.Value.Time, causes[s.Queue].of(s), v.Examined.beyond(s)})
	}
	if next := from + queuesPerPage; next < len(found) {
		v.More = link("", "find", v.Find, "from", strconv.Itoa(next))
	}
	p := page{
		Screen: "queues", Live: link("live", "screen", "queues", "find", v.Find, "from", r.FormValue("from")),
		Title:  "Queues",
		Asking: asking(r, a),
	}
	if !p.Asking {
		p.Trouble = slices.Concat(fault(a), partly(a))
	}
	if a.Known {
		v.Sum = sum(a.Value, v.Examined, causes)
		p.Title = v.Sum.headline(a.Value)
	}
	if v.Examined.Away = len(p.Trouble) > 0; v.Examined.Away {
		p.Title = unanswered(p.Trouble, p.Title)
	}
	p.View = v
	return p, nil
}

// overviewAge is how old the first page may be: with many queues each reading costs broker and store something.
const overviewAge = 4 * time.Second

// partly says which half of an overview is missing.
func partly(a answer[ops.Overview]) (out []trouble) {
	add := func(what string, err error, lacks string) {
		if err != nil {
			out = append(out, trouble{What: what, Err: shown(err.Error()), Lacks: lacks})
		}
	}
	add("the broker", a.Value.Broker, "Ready messages, consumers and alarms")
	add("the store", a.Value.Store, "Failing messages and dead letters")
	return out
}

// unanswered puts before a headline that a server does not answer, and how old the headline is.
func unanswered(by []trouble, headline string) string {
	var who []string
	age := ""
	for _, t := range by {
		who = append(who, t.What)
		if !t.Old.IsZero() {
			age = "Known " + printable.Rough(t.Now.Sub(t.Old)) + " ago: "
		}
	}
	return "No answer from " + strings.Join(who, " and ") + ". " + age + headline
}

type sums struct {
	Queues, Wrong, Blocked, Failing int
	Stopped                         int // of the blocked ones: no message succeeds
	Dead, Missing                   int64
	Unseen, Unheard                 int    // queues of which the store's half, or the broker's, is not known
	Unmatched                       int    // queues with dead letters whose dead-letter queue was not seen
	Most                            string // the commonest reason; empty: not known
	Sound                           bool   // the last examination saw everything, and found no error
}

func sum(o ops.Overview, last examination, causes map[string]cause) sums {
	out := sums{Queues: len(o.Queues), Missing: o.Missing,
		Sound: !last.At.IsZero() && last.Unseen == 0 && last.Errors == 0}
	reasons := map[string]float64{}
	for _, s := range o.Queues {
		if !s.StoreSeen {
			out.Unseen++
		}
		if unheard(s) {
			out.Unheard++
		}
		if s.Dead.Still+s.Dead.Blocked > 0 && s.Dead.Holds == nil {
			out.Unmatched++
		}
		if s.Blocked > 0 || s.Breaker.Stops() || s.Paused == nil && s.Unattended() > 0 ||
			s.Trouble == ops.TroubleBlocked {
			out.Blocked++
		}
		if s.Breaker.Stops() {
			out.Stopped++
		}
		if len(s.Findings) > 0 || len(last.beyond(s)) > 0 {
			out.Wrong++
		}
		out.Failing += failing(s)
		out.Dead += s.Dead.Still
		if k := causes[s.Queue].of(s); k != nil {
			text := brief(k.Group.Reason)
			reasons[text] += float64(s.Dead.Still) * float64(k.Group.Count) / float64(k.Of)
			if out.Most == "" || reasons[text] > reasons[out.Most] {
				out.Most = text
			}
		}
	}
	return out
}

// atLeast prints a sum over all queues. Each unknown is the number of queues that lack a part of it.
func atLeast(figure any, unknown ...int) string {
	n := number(figure)
	switch {
	case slices.Max(unknown) == 0:
		return digits(n)
	case n == 0:
		return "?"
	}
	return "at least " + digits(n)
}

// headline is the fact that matters most about all queues.
func (s sums) headline(o ops.Overview) string {
	queues := plural(s.Queues, "queue")
	var facts []string
	add := func(n int64, format string, args ...any) {
		if n > 0 {
			facts = append(facts, fmt.Sprintf(format, args...))
		}
	}
	of := " of " + queues
	add(int64(len(o.Alarms)), "%s", plural(len(o.Alarms), "alarm"))
	if add(int64(s.Wrong), "%d%s with an error", s.Wrong, of); s.Wrong > 0 {
		of = ""
	}
	if add(int64(s.Stopped), "%d%s without progress", s.Stopped, of); s.Stopped > 0 {
		of = ""
	}
	add(int64(s.Blocked-s.Stopped), "%d%s blocked", s.Blocked-s.Stopped, of)
	add(s.Missing, "%s unaccounted for", plural(s.Missing, "dead letter"))
	dead := ""
	if s.Dead > 0 {
		dead = plural(s.Dead, "dead letter")
		if s.Most != "" {
			dead += ", most for " + s.Most
		}
	}
	known, nothing := s.Unseen+s.Unheard == 0, "Nothing is blocked"
	if !known {
		nothing = "Nothing is known to be blocked"
	}
	switch {
	case s.Queues == 0:
		return "There are no queues"
	case o.Store != nil:
		return "Not known what is blocked in " + queues
	case len(facts) > 0:
		text := strings.Join(append(facts, dead)[:len(facts)+min(len(dead), 1)], ", ")
		return strings.ToUpper(text[:1]) + text[1:]
	case dead != "":
		return nothing + "; " + dead
	case s.Sound && known:
		return "Nothing is wrong in " + queues
	}
	return nothing + " in " + queues
}

const (
	// causeBudget is how long the reasons of one queue are read for the first page, causesFor how long those of all,
	// and causesTogether of how many at the same time.
	causeBudget    = 30 * time.Millisecond
	causesFor      = 2 * time.Second
	causesTogether = 4
	// causeAge is how old the reason of a queue may be while its dead letters change.
	causeAge = 30 * time.Second
)

// cause is the commonest reason of the dead letters of a queue.
type cause struct {
	Group *ops.Group
	Of    int  // dead letters that were read
	Part  bool // they are not all
	dead  int64
	at    time.Time
}

// of returns nil if no reason is known, or none of the dead letters is left.
func (k cause) of(s ops.Status) *cause {
	if k.Group == nil || s.Dead.Still == 0 {
		return nil
	}
	return &k
}

// readCauses reads why messages died in the queues of the last overview, if that is not known or may have changed.
func (c *Console) readCauses(ctx context.Context) (map[string]cause, error) {
	ctx, cancel := context.WithTimeout(ctx, causesFor)
	defer cancel()
	before, found := c.causes.peek(causeAge).Value, map[string]cause{}
	var mu sync.Mutex // guards found
	var reading panics.Group
	reading.SetLimit(causesTogether)
	read := 0
	for _, s := range c.all.peek(causeAge).Value.Queues {
		have, known := before[s.Queue]
		if known && s.Dead.Still > 0 {
			mu.Lock()
			found[s.Queue] = have
			mu.Unlock()
		}
		if s.Dead.Still == 0 || known && (have.dead == s.Dead.Still || time.Since(have.at) <= causeAge) ||
			read == queuesPerPage {
			continue
		}
		read++
		reading.Go(func() error {
			groups, err := c.records(s.Queue).Groups(ctx, ops.DeadQuery{Budget: causeBudget})
			if err != nil { // the next time it tries again
				return nil // the page shows the queue without it
			}
			of := cause{Of: groups.Count, Part: groups.Partial, dead: s.Dead.Still, at: time.Now()}
			if len(groups.Groups) > 0 && groups.Groups[0].Reason != "" {
				of.Group = groups.Groups[0]
			}
			mu.Lock()
			defer mu.Unlock()
			found[s.Queue] = of
			return nil
		})
	}
	return found, reading.Wait()
}
