package ops

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/doctor"
	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/internal/inspect"
)

const (
	// examineEvery is the least time between two examinations of a queue: each takes several requests.
	examineEvery = 10 * time.Second
	// examineTimeout bounds one. The policy of a queue that was just declared may take longer to show.
	examineTimeout = 5 * time.Second
	// refusalsTimeout bounds the question whether the store refuses writes.
	refusalsTimeout = time.Second
)

// unexamined notes that the findings of the doctor are not known.
const unexamined = "the queue could not be examined: %v"

// examine shows the errors that the doctor finds of the queue, the alarms of its broker, and the possible causes of
// missing dead letters.
func (c *question) examine(ctx context.Context, s *Status) {
	if time.Since(c.examined) >= examineEvery {
		c.examined = time.Now()
		c.findings, c.unexamined = c.ask(ctx)
	}
	if c.unexamined != nil {
		s.note(unexamined, c.unexamined)
	}
	for _, f := range c.findings {
		switch {
		case f.Code == inspect.CodeUnknown || f.Code == inspect.CodeDenied:
			s.note(unexamined, f.Seen)
		case f.Severe() || s.Dead.Missing > 0 && f.OfRoute():
			s.Findings = append(s.Findings, f)
		}
	}
}

// ask has the doctor examine the queue. The store is asked by the Collector itself.
func (c *question) ask(ctx context.Context) (found []inspect.Finding, err error) {
	ctx, cancel := context.WithTimeout(ctx, examineTimeout)
	defer cancel()
	need := c.API
	need.MaxRetries = inspect.UsualRetries
	up := doctor.Checkup{Conn: c.conn, Need: need, Named: true}
	err = up.Queues(ctx, []string{c.Queue}, func(r doctor.Report) error {
		found = r.Findings
		return r.Err
	})
	if errors.Is(err, broker.ErrNotFound) { // deleted meanwhile
		err = nil
	}
	return slices.Concat(doctor.Alarms(ctx, c.conn, need), refusals(ctx, c.Store), found), err
}

// refusals returns the severe findings that say why the store refuses writes. It leaves out an old server, because that
// takes writes, and the permissions of this user, because the consumers have others. It returns nothing if the store
// does not answer: the requests that need the store report that.
func refusals(ctx context.Context, store *counter.Admin) []inspect.Finding {
	ctx, cancel := context.WithTimeout(ctx, refusalsTimeout)
	defer cancel()
	found, err := store.Examine(ctx)
	if err != nil {
		return nil
	}
	found = slices.DeleteFunc(found, func(f counter.Finding) bool {
		return !f.Severe || f.Code == "store-version" || f.Code == "store-acl"
	})
	return doctor.StoreReport("", found).Findings
}
