package console

import (
	"context"
	"fmt"
	"net/http"
	"strconv"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/doctor"
	"github.com/strikesmq/strikes/internal/inspect"
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
	ctx, cancel := c.brieflyAsked(r)
	defer cancel()
	v := doctorView{Retries: inspect.UsualRetries}
	if text := r.FormValue("retries"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 || n > counter.MaxOverride {
			return page{}, formError{fmt.Sprintf("retries must be 0 to %d, got %s", counter.MaxOverride, shown(text))}
		}
		v.Retries = n
	}
	name, err := queueOf(r)
	if err != nil {
		return page{}, err
	}
	v.Examined = []doctor.Report{
		c.examine(ctx, "queue", inspect.Need{Queue: name, MaxRetries: v.Retries}), c.examine(ctx, "broker", inspect.Need{}),
		c.examineStore(ctx),
	}
	return page{Screen: "doctor", Queue: name, View: v, Title: diagnose(shown(name)+", broker and store", v.Examined)}, nil
}

// examinationPage shows the last examination of all queues, and how far the present one is.
func (c *Console) examinationPage(*http.Request) (page, error) {
	v := c.examiner.state(true)
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
	c.examineAll()
	goTo(w, "doctor")
	return nil
}

func (c *Console) examine(ctx context.Context, subject string, need inspect.Need) doctor.Report {
	found, err := c.broker.Examine(ctx, need)
	return doctor.Report{Subject: subject, Name: need.Queue, Findings: found, Err: err}
}

func (c *Console) examineStore(ctx context.Context) doctor.Report {
	found, err := c.store.Examine(ctx)
	out := doctor.StoreReport("", found)
	out.Err = err
	return out
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
