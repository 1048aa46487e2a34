package console

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/doctor"
	"github.com/strikesmq/strikes/internal/inspect"
	"github.com/strikesmq/strikes/internal/panics"
	"github.com/strikesmq/strikes/ops"
)

// doctorView is the Doctor page of one queue, the broker and the store.
type doctorView struct {
	Retries  int
	Examined []doctor.Report
}

// doctorPage examines the queue of the address, the broker and the store. Without a queue it shows the last
// examination of all.
func (c *Console) doctorPage(r *http.Request) (page, error) {
	if r.FormValue("queue") == "" {
		return c.examinationPage(r)
	}
	if err := checkQueue(r); err != nil {
		return page{}, err
	}
	v := doctorView{Retries: inspect.UsualRetries}
	if text := r.FormValue("retries"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 || n > counter.MaxOverride {
			return page{}, formError(fmt.Sprintf("retries must be 0 to %d, got %s", counter.MaxOverride, shown(text)))
		}
		v.Retries = n
	}
	name := queueOf(r)
	store, err := c.examine(r.Context(), name, v.Retries, func(r doctor.Report, _ int) {
		v.Examined = append(v.Examined, r)
	})
	if err != nil {
		v.Examined = slices.Insert(v.Examined, 0, doctor.Report{Subject: "queue", Name: name, Err: err})
	}
	v.Examined = append(v.Examined, store)
	return page{Screen: "doctor", Queue: name, View: v, Title: diagnose(shown(name)+", broker and store", v.Examined)}, nil
}

// examinationPage shows the last examination of all queues, and how far the present one is.
func (c *Console) examinationPage(*http.Request) (page, error) {
	v := c.examined()
	title := "The queues are not examined yet"
	switch {
	case v.At.IsZero() && v.Running:
		title = "The queues are being examined"
	case !v.At.IsZero():
		title = diagnose(plural(v.Of, "queue")+", broker and store", v.All)
	}
	if !v.At.IsZero() && v.Err != "" && v.Errors() == 0 {
		title = "Not everything could be examined"
	}
	return page{Screen: "examination", View: v, Title: title, Live: "live?screen=doctor"}, nil
}

// beginExamination examines all queues, because a user asked for it.
func (c *Console) beginExamination(w http.ResponseWriter, _ *http.Request) error {
	c.survey.peek(0)
	goTo(w, "doctor")
	return nil
}

// examine examines the store while the broker is examined: one that hangs takes no time from the other.
func (c *Console) examine(ctx context.Context, queue string, retries int, show func(r doctor.Report, of int)) (
	store doctor.Report, broker error) {
	var both panics.Group
	both.Go(func() error {
		found, err := c.store.Examine(ctx)
		store = doctor.StoreReport("", found)
		store.Err = err
		return nil
	})
	both.Go(func() error { return c.broker.Examine(ctx, queue, retries, show) })
	broker = both.Wait()
	return store, broker
}

// count counts errors and warnings.
func count(all []doctor.Report) (severe, mild int) {
	for _, e := range all {
		severe += e.Errors()
		mild += len(e.Findings)
	}
	return severe, mild - severe
}

// diagnose is the fact of an examination.
func diagnose(about string, all []doctor.Report) string {
	severe, mild := count(all)
	unseen := 0
	for _, e := range all {
		if e.Err != nil {
			unseen++
		}
	}
	switch {
	case severe > 0:
		return fmt.Sprintf("%s: %s, %s", about, plural(severe, "error"), plural(mild, "warning"))
	case unseen > 0:
		return about + ": not all could be examined"
	case mild > 0:
		return fmt.Sprintf("%s: %s", about, plural(mild, "warning"))
	}
	return about + ": nothing is wrong"
}

const (
	// examineEvery is how old an examination may be before the console makes another one, while a page is open.
	examineEvery = 5 * time.Minute
	// examineFor bounds an examination of all queues.
	examineFor = 2 * time.Minute
)

// examination holds the findings of the doctor for every queue, the broker and the store. It also has the progress of
// the next examination.
type examination struct {
	At    time.Time       // it ended; zero: there was none
	All   []doctor.Report // those with a finding or an error, the worst first
	Clean int             // queues in which nothing is wrong
	Of    int             // queues that it was to examine
	Err   string          // why it could not examine all

	errors map[string][]inspect.Finding // of queues

	Running  bool // the next one is under way
	Seen, To int  // queues of that one
	Away     bool // a server does not answer now
	Now      time.Time
}

// Age is how long ago it ended.
func (e examination) Age() time.Duration { return e.Now.Sub(e.At) }

// Errors and Warnings count the findings.
func (e examination) Errors() int   { n, _ := count(e.All); return n }
func (e examination) Warnings() int { _, n := count(e.All); return n }

// Whole reports whether every queue, the broker and the store were examined.
func (e examination) Whole() bool { return !e.At.IsZero() && e.Err == "" }

// beyond returns the errors that were found of a queue and that its summary does not show.
func (e examination) beyond(s ops.Summary) []inspect.Finding {
	return slices.DeleteFunc(slices.Clone(e.errors[s.Queue]), func(f inspect.Finding) bool {
		return slices.ContainsFunc(s.Findings, func(shown inspect.Finding) bool { return shown.Code == f.Code })
	})
}

// rank is 0 for the troubles that need a person first. An error that only an examination finds is one of them.
func (e examination) rank(s ops.Summary) int {
	switch s.Trouble {
	case ops.TroubleRoute, ops.TroubleBlocked, ops.TroubleUnaccounted, ops.TroubleUnsafe:
		return 0
	default:
	}
	if len(e.beyond(s)) > 0 {
		return 0
	}
	return 1
}

// examined returns the last examination, and how far the present one is. It begins another one if that is old.
func (c *Console) examined() examination {
	a := c.survey.peek(examineEvery)
	v := a.Value
	v.At, v.Now, v.Running = a.At, time.Now(), c.survey.busy()
	v.Seen, v.To = int(c.seen.Load()), int(c.toSee.Load())
	return v
}

// examineAll examines every queue, the broker and the store.
func (c *Console) examineAll(ctx context.Context) (out examination, _ error) {
	c.seen.Store(0)
	c.toSee.Store(0)
	out.errors = map[string][]inspect.Finding{}
	var unseen []string // queues
	var broker error
	show := func(r doctor.Report, of int) {
		for _, f := range r.Findings {
			if f.Severe() && r.Subject == "queue" {
				out.errors[r.Name] = append(out.errors[r.Name], f)
			}
		}
		switch {
		case r.Err != nil && r.Subject == "queue":
			unseen = append(unseen, shown(r.Name))
			out.All = append(out.All, r)
		case r.Err != nil || len(r.Findings) > 0:
			out.All, broker = append(out.All, r), r.Err
		case r.Subject == "queue":
			out.Clean++
		}
		out.Of = of
		c.toSee.Store(int64(of))
		if r.Subject == "queue" {
			c.seen.Add(1)
		}
	}
	store, err := guardedAsk(c, func() (doctor.Report, error) { return c.examine(ctx, "", inspect.UsualRetries, show) })
	slices.Sort(unseen)
	switch {
	case err != nil:
		out.Err = shown(err.Error())
	case len(unseen) > 0:
		const most = 5
		out.Err = plural(len(unseen), "queue") + " could not be examined: " +
			strings.Join(unseen[:min(len(unseen), most)], ", ")
		if len(unseen) > most {
			out.Err += ", …"
		}
	case broker != nil:
		out.Err = shown(broker.Error())
	}
	if store.Err != nil || len(store.Findings) > 0 {
		out.All = append(out.All, store)
		if store.Err != nil {
			out.Err = cmp.Or(out.Err, shown(store.Err.Error()))
		}
	}
	slices.SortStableFunc(out.All, func(a, b doctor.Report) int {
		return cmp.Or(cmp.Compare(b.Errors(), a.Errors()), cmp.Compare(a.Name, b.Name))
	})
	return out, nil
}
