package soak

import (
	"context"
	"strings"
	"time"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/audit"
)

// recorder writes down each step that is taken on the store, and what it answered.
type recorder struct {
	*counter.Counter
	member *member
}

// Start takes the step START.
func (c recorder) Start(ctx context.Context, a counter.Attempt, mode counter.Mode, limit int) (counter.Reply, error) {
	began := time.Now()
	answer, err := c.Counter.Start(ctx, a, mode, limit)
	if (mode == counter.ModeIsolated || mode == counter.ModeBesideAbandoned) && answer.Code == counter.ReplyRun {
		c.member.isolating.Store(a.Token, nil)
	}
	c.write(a, audit.Event{
		Step: "start", Isolated: mode == counter.ModeIsolated, Beside: mode == counter.ModeBesideAbandoned,
		Took: time.Since(began),
	}, answer, err)
	return answer, err
}

// Begun takes the step BEGUN. It writes first that it does: the process may die before the reply.
func (c recorder) Begun(ctx context.Context, a counter.Attempt) (counter.Reply, error) {
	c.member.log.Write(audit.Event{Kind: audit.Asked, Step: audit.StepBegun, ID: a.ID, Token: a.Token,
		Session: int(c.member.session.Load())})
	began := time.Now()
	answer, err := c.Counter.Begun(ctx, a)
	c.write(a, audit.Event{Step: audit.StepBegun, Took: time.Since(began)}, answer, err)
	return answer, err
}

// Fail takes the step FAIL.
func (c recorder) Fail(ctx context.Context, a counter.Attempt, f counter.Failure) (counter.Reply, error) {
	began := time.Now()
	answer, err := c.Counter.Fail(ctx, a, f)
	c.write(a, audit.Event{Step: "fail", Took: time.Since(began)}, answer, err)
	return answer, err
}

// End takes the step END.
func (c recorder) End(ctx context.Context, a counter.Attempt, succeeded bool) error {
	began := time.Now()
	err := c.Counter.End(ctx, a, succeeded)
	c.write(a, audit.Event{Step: "end", Took: time.Since(began)}, counter.Reply{}, err)
	return err
}

func (c recorder) write(a counter.Attempt, e audit.Event, answer counter.Reply, err error) {
	e.Kind, e.ID, e.Token, e.Session = audit.Stepped, a.ID, a.Token, int(c.member.session.Load())
	e.Failures, e.Crashes, e.Limit, e.Err = answer.Failures, answer.Crashes, answer.Limit, text(err)
	switch {
	case err != nil:
	case e.Step == "end":
		e.Code = "ended"
	default:
		e.Code = strings.ToLower(answer.Code.String())
	}
	c.member.log.Write(e)
}
