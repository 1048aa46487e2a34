package console

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/inspect"
)

// defaultRetries is consumer.DefaultMaxRetries.
const defaultRetries = 3

// doctorView is what the doctor's page shows.
type doctorView struct {
	Retries  int
	Examined []examined
	Names    []string // queues to examine, if none is
	Now      time.Time
}

// Repairable reports whether the verb repair may fix it.
func (d diagnosis) Repairable() bool {
	return d.Severe && slices.Contains([]string{inspect.CodeExchangeMissing, inspect.CodeQueueMissing, inspect.CodeUnbound}, d.Code)
}

// examined is what was found of a queue, the broker or the store.
type examined struct {
	Kind, Name string
	Findings   []diagnosis
	Err        string // why it could not be examined
}

// diagnosis is one finding.
type diagnosis struct {
	Code, Seen, Impact, Fix, Command string
	Severe                           bool
}

// doctorPage examines the queue of the address, the broker and the store.
func (c *Console) doctorPage(r *http.Request) (page, error) {
	ctx, cancel := brieflyAsked(r)
	defer cancel()
	v := doctorView{Retries: defaultRetries, Now: time.Now()}
	if text := r.FormValue("retries"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 || n > counter.MaxOverride {
			return page{}, formError{fmt.Sprintf("retries must be 0 to %d, got %s", counter.MaxOverride, shown(text))}
		}
		v.Retries = n
	}
	p := page{Screen: "doctor"}
	if r.FormValue("queue") != "" {
		name, err := queueOf(r)
		if err != nil {
			return page{}, err
		}
		p.Queue = name
		v.Examined = append(v.Examined, c.examine(ctx, "queue", inspect.Need{Queue: name, MaxRetries: v.Retries}))
	} else {
		for _, s := range c.all.get(ctx, time.Minute).Value.Queues {
			v.Names = append(v.Names, s.Queue)
		}
	}
	v.Examined = append(v.Examined, c.examine(ctx, "broker", inspect.Need{}), c.examineStore(ctx))
	p.View, p.Title = v, diagnose(p.Queue, v.Examined)
	return p, nil
}

func (c *Console) examine(ctx context.Context, kind string, need inspect.Need) examined {
	out := examined{Kind: kind, Name: need.Queue}
	found, err := c.broker.Examine(ctx, need)
	if err != nil {
		out.Err = err.Error()
	}
	for _, f := range found {
		out.Findings = append(out.Findings, diagnosis{
			Code: f.Code, Seen: f.Seen, Impact: f.Impact, Fix: f.Fix, Command: f.Command, Severe: f.Severity == inspect.Error,
		})
	}
	return out
}

func (c *Console) examineStore(ctx context.Context) examined {
	out := examined{Kind: "store"}
	found, err := c.store.Examine(ctx)
	if err != nil {
		out.Err = err.Error()
	}
	for _, f := range found {
		out.Findings = append(out.Findings, diagnosis{Code: f.Code, Seen: f.Seen, Impact: f.Impact, Fix: f.Fix, Severe: f.Severe})
	}
	return out
}

// diagnose is the fact of the doctor's page.
func diagnose(queue string, all []examined) string {
	about := "Broker and store"
	if queue != "" {
		about = shown(queue) + ", broker and store"
	}
	severe, mild, unseen := 0, 0, 0
	for _, e := range all {
		if e.Err != "" {
			unseen++
		}
		for _, f := range e.Findings {
			if f.Severe {
				severe++
			} else {
				mild++
			}
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
