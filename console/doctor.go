package console

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/strikesmq/strikes/doctor"
	"github.com/strikesmq/strikes/internal/inspect"
	"github.com/strikesmq/strikes/internal/panics"
	"github.com/strikesmq/strikes/ops"
)

const (
	// examineEvery is how old an examination may be before the console makes another one, while a page is open.
	examineEvery = 5 * time.Minute
	examineFor   = 2 * time.Minute
)

// examination holds the findings of the doctor for one queue or all, the broker and the store.
type examination struct {
	All []doctor.Report // the worst first
	Of  int             // queues that were examined, or could not be

	Errors, Warnings int // findings
	Unseen           int // reports that lack a part

	errors map[string][]inspect.Finding // by queue

	Running bool      // the next one is under way
	At      time.Time // it ended; zero: there was none
	Now     time.Time
	Away    bool // a server does not answer now
}

// examine examines one queue, or all if queue is empty. It examines the store while the broker is examined: one that
// hangs takes no time from the other.
func (c *Console) examine(ctx context.Context, queue string) examination {
	out := examination{errors: map[string][]inspect.Finding{}}
	var store doctor.Report
	var both panics.Group
	both.Go(func() error {
		found, err := c.store.Examine(ctx)
		store = doctor.StoreReport("", found)
		store.Err = err
		return nil
	})
	both.Go(func() error {
		return c.broker.Examine(ctx, queue, func(r doctor.Report) { out.All = append(out.All, r) })
	})
	if err := both.Wait(); err != nil {
		out.All = append(out.All, doctor.Report{Subject: "queue", Name: queue, Err: err})
	}
	out.All = append(out.All, store)
	for _, r := range out.All {
		out.Errors, out.Warnings = out.Errors+r.Errors(), out.Warnings+len(r.Findings)-r.Errors()
		if r.Err != nil {
			out.Unseen++
		}
		if r.Subject != "queue" || r.Name == "" {
			continue
		}
		out.Of++
		for _, f := range r.Findings {
			if f.Severe() {
				out.errors[r.Name] = append(out.errors[r.Name], f)
			}
		}
	}
	slices.SortStableFunc(out.All, func(a, b doctor.Report) int {
		return cmp.Or(cmp.Compare(b.Errors(), a.Errors()), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// examined returns the last examination of all queues. It begins another one if that is old.
func (c *Console) examined() examination {
	a := c.survey.peek(examineEvery)
	v := a.Value
	v.At, v.Now, v.Running = a.At, time.Now(), c.survey.busy()
	return v
}

// Age is how long ago it ended.
func (e examination) Age() time.Duration { return e.Now.Sub(e.At) }

// Wrong returns the reports with a finding or an error.
func (e examination) Wrong() []doctor.Report {
	return slices.DeleteFunc(slices.Clone(e.All), func(r doctor.Report) bool {
		return r.Err == nil && len(r.Findings) == 0
	})
}

// beyond returns the errors that were found of a queue and that its summary does not show.
func (e examination) beyond(s ops.Status) []inspect.Finding {
	return slices.DeleteFunc(slices.Clone(e.errors[s.Queue]), func(f inspect.Finding) bool {
		return slices.ContainsFunc(s.Findings, func(shown inspect.Finding) bool { return shown.Code == f.Code })
	})
}

// rank is 0 for the troubles that need a person first. An error that only an examination finds is one of them.
func (e examination) rank(s ops.Status) int {
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

func (e examination) diagnose(about string) string {
	severe, mild := e.Errors, e.Warnings
	switch {
	case severe > 0:
		return fmt.Sprintf("%s: %s, %s", about, plural(severe, "error"), plural(mild, "warning"))
	case e.Unseen > 0:
		return about + ": not all could be examined"
	case mild > 0:
		return fmt.Sprintf("%s: %s", about, plural(mild, "warning"))
	}
	return about + ": nothing is wrong"
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
	name := queueOf(r)
	v := c.examine(r.Context(), name)
	return page{Screen: "doctor", Queue: name, View: v, Title: v.diagnose(shown(name) + ", broker and store")}, nil
}

func (c *Console) examinationPage(*http.Request) (page, error) {
	v := c.examined()
	title := "The queues are not examined yet"
	switch {
	case !v.At.IsZero():
		title = v.diagnose(plural(v.Of, "queue") + ", broker and store")
	case v.Running:
		title = "The queues are being examined"
	}
	return page{Screen: "examination", View: v, Title: title, Live: "live?screen=doctor"}, nil
}

// beginExamination examines all queues, because a user asked for it.
func (c *Console) beginExamination(w http.ResponseWriter, _ *http.Request) error {
	c.survey.peek(0)
	goTo(w, "doctor")
	return nil
}
