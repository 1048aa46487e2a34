package console

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/strikesmq/strikes/internal/printable"
	"github.com/strikesmq/strikes/internal/status"
)

// line is a queue of the first page.
type line struct {
	status.Summary
	Now time.Time
}

// fact is something that is wrong with a queue.
type fact struct{ Text, Class string }

// Facts are what is wrong with a queue, the worst first.
func (l line) Facts() (all []fact) {
	add := func(is bool, class, format string, args ...any) {
		if is {
			all = append(all, fact{fmt.Sprintf(format, args...), class})
		}
	}
	if broken := brokenRoute(l.Dead.Route); broken != "" {
		add(true, "bad", "%s", broken)
	}
	add(l.Err != nil, "bad", "not known: %v", l.Err)
	add(l.Undecodable != nil && l.Undecodable.Blocks(l.Now), "bad", "a message that consumers cannot decode")
	if l.Blocked > 0 {
		class := "warn"
		if l.Trouble == status.TroubleBlocked {
			class = "bad"
		}
		add(true, class, "blocked for %s by %s", rough(l.Blocked), shown(l.Head.ID))
	}
	add(l.Dead.Missing > 0, "bad", "%s unaccounted for", plural(l.Dead.Missing, "dead letter"))
	add(l.HeldLanes > 0, "warn", "%s, %s behind", plural(l.HeldLanes, "held lane"), digits(l.Dead.Behind))
	if l.Paused != nil {
		add(true, "warn", "paused by %s: %s", shown(l.Paused.By), brief(l.Paused.Reason))
	} else if idle(l.Summary) {
		add(true, "bad", "%sno consumer, %s ready", map[bool]string{true: "blocked: "}[l.Blocked == 0], plural(*l.Ready, "message"))
	}
	add(l.Dead.Still > 0, "", "dead letters since %s", instant(l.Dead.Since))
	add(l.Limit != nil, "", "limited by an operator")
	return all
}

// idle reports whether messages wait and there is no consumer.
func idle(s status.Summary) bool {
	return s.Consumers != nil && *s.Consumers == 0 && s.Ready != nil && *s.Ready > 0
}

// overview asks for all queues.
func (c *Console) overview(ctx context.Context) (status.Overview, error) {
	all, err := c.broker.All(ctx)
	if err == nil && len(all.Queues) == 0 {
		err = all.Failed()
	}
	if err != nil {
		return status.Overview{}, err
	}
	for _, s := range all.Queues {
		c.history.add(s.Queue, sampleOfSummary(s))
	}
	return all, nil
}

func sampleOfSummary(s status.Summary) sample {
	out := sample{At: time.Now(), In: math.NaN(), Out: math.NaN(), Failing: float64(s.Retrying - s.Forgotten), Dead: float64(s.Dead.Count)}
	if s.Rates != nil {
		out.In, out.Out = s.Rates.In, s.Rates.Out
	}
	return out
}

// queuesView is what the first page shows.
type queuesView struct {
	answer[status.Overview]
	Shown []line
	Find  string
	More  string
}

// queuesPerPage keeps a page light.
const queuesPerPage = 100

// queuesPage shows all queues, the worst first.
func (c *Console) queuesPage(r *http.Request) (page, error) {
	a := ask(r, c.all, overviewAge)
	v := queuesView{answer: a, Find: printable.Text(r.FormValue("find"), "")}
	from, _ := strconv.Atoi(r.FormValue("from"))
	found := slices.DeleteFunc(slices.Clone(a.Value.Queues), func(s status.Summary) bool {
		return !strings.Contains(strings.ToLower(s.Queue), strings.ToLower(v.Find))
	})
	from = min(max(from, 0), len(found))
	for _, s := range found[from:min(from+queuesPerPage, len(found))] {
		v.Shown = append(v.Shown, line{s, a.Value.Time})
	}
	if next := from + queuesPerPage; next < len(found) {
		v.More = link("", "find", v.Find, "from", strconv.Itoa(next))
	}
	p := page{
		Screen: "queues", Live: link("live", "screen", "queues", "find", v.Find, "from", r.FormValue("from")), View: v, Title: "Queues",
		Asking: asking(r, a),
	}
	if !p.Asking {
		p.Trouble = slices.Concat(fault(a), partly(a))
	}
	if a.Known {
		p.Title = headlineOfAll(a.Value)
	}
	return p, nil
}

// overviewAge is how old the first page may be: with many queues each reading costs broker and store something.
const overviewAge = 4 * time.Second

// partly says which half of an overview is missing.
func partly(a answer[status.Overview]) (out []trouble) {
	for what, err := range map[string]error{"the broker": a.Value.Broker, "the store": a.Value.Store} {
		if a.Known && err != nil && !errors.Is(err, status.ErrNoList) {
			out = append(out, trouble{What: what, Err: shown(err.Error()), Old: a.At, Now: time.Now()})
		}
	}
	return out
}

// headlineOfAll is the fact that matters most about all queues.
func headlineOfAll(o status.Overview) string {
	blocked, broken, dead, missing := 0, 0, int64(0), int64(0)
	for _, s := range o.Queues {
		if s.Blocked > 0 || s.Paused == nil && idle(s) || s.Trouble == status.TroubleBlocked {
			blocked++
		}
		if len(s.Dead.Route) > 0 {
			broken++
		}
		dead, missing = dead+s.Dead.Still, missing+s.Dead.Missing
	}
	queues := plural(len(o.Queues), "queue")
	var facts []string
	add := func(n int64, format string, args ...any) {
		if n > 0 {
			facts = append(facts, fmt.Sprintf(format, args...))
		}
	}
	add(int64(broken), "%s broken", plural(broken, "dead-letter route"))
	add(int64(blocked), "%d of %s blocked", blocked, queues)
	add(missing, "%s unaccounted for", plural(missing, "dead letter"))
	switch {
	case len(o.Queues) == 0:
		return "There are no queues"
	case o.Store != nil:
		return "Not known what is blocked in " + queues
	case len(facts) > 0:
		return strings.Join(facts, ", ")
	case dead > 0:
		return fmt.Sprintf("Nothing is blocked, %s in %s", plural(dead, "dead letter"), queues)
	}
	return fmt.Sprintf("Nothing is wrong in %s", queues)
}
