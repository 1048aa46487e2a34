package console

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/internal/inspect"
	"github.com/strikesmq/strikes/internal/printable"
	"github.com/strikesmq/strikes/ops"
)

type queueView struct {
	ops.Status
	Curves  []curve
	Groups  ops.Groups // of the dead letters
	Counted time.Time  // when they were counted
	Lanes   laneList   // those that are blocked for longest
}

// queueOf returns the queue that a request names. The routes of a queue have checked it.
func queueOf(r *http.Request) string { return r.URL.Query().Get("queue") }

func checkQueue(r *http.Request) error {
	if err := broker.CheckName(queueOf(r)); err != nil {
		return formError("the queue in the address: " + err.Error())
	}
	return nil
}

// queueStatus is the cached status of a queue, and its collector.
type queueStatus struct {
	*cached[queueView]

	asking    sync.Mutex // guards collector
	collector collector
}

func (q *queueStatus) ask(ctx context.Context, name string) (ops.Status, error) {
	q.asking.Lock()
	defer q.asking.Unlock() // also if it panics
	return q.collector.Collect(ctx, ops.Question{Queue: name, Most: mostBlocking, NoReasons: true})
}

func (c *Console) statusOf(name string) *queueStatus {
	c.mu.Lock()
	defer c.mu.Unlock()
	q := c.queues[name]
	if q == nil {
		q = &queueStatus{collector: c.broker.Collector()}
		q.cached = newCached(c, func(ctx context.Context) (queueView, error) { return c.collect(ctx, q, name) })
		c.queues[name] = q
	}
	return q
}

const mostBlocking = 50

func (c *Console) collect(ctx context.Context, q *queueStatus, name string) (queueView, error) {
	s, err := q.ask(ctx, name)
	c.mu.Lock()
	if errors.Is(err, broker.ErrNotFound) && c.queues[name] == q { // else each name in an address would be kept
		delete(c.queues, name)
	}
	kept := c.queues[name] == q
	c.mu.Unlock()
	if !kept {
		q.close()
	}
	if err != nil {
		return queueView{}, err
	}
	v := queueView{Status: s}
	if s.BlockedLanes > 0 {
		v.Lanes, err = c.lanes(ctx, s, lanesOfQueue)
	}
	return v, err
}

// close closes the connection. A later question opens another.
func (q *queueStatus) close() {
	q.asking.Lock()
	defer q.asking.Unlock()
	q.collector.Close()
}

// changed makes the next page ask again, after a change.
func (c *Console) changed(queue string) {
	c.mu.Lock()
	q := c.queues[queue]
	maps.DeleteFunc(c.grouped, func(of [2]string, _ *cached[ops.Groups]) bool { return of[0] == queue })
	c.mu.Unlock()
	if q != nil {
		q.stale()
	}
	c.all.stale()
}

// queuePage shows the messages that block a queue, and where its dead letters are.
func (c *Console) queuePage(r *http.Request) (page, error) {
	name := queueOf(r)
	a := ask(r, c.statusOf(name).cached, liveEvery-200*time.Millisecond)
	a.Value.Curves = curves(c.history.of(name), time.Now())
	if a.Known && a.Value.Dead.Still > 0 {
		var err error
		a.Value.Groups, a.Value.Counted, err = c.groups(r, name, filter{})
		if left := errors.Is(r.Context().Err(), context.Canceled); err != nil && !left {
			c.opts.Logger.Warn("console: reasons not known", "queue", name, "err", err)
		}
	}
	p := page{
		Screen: "queue", Title: shown(name), Queue: name, Live: link("live", "screen", "queue", "queue", name), View: a,
		Asking: asking(r, a),
	}
	if !p.Asking {
		p.Trouble = fault(a)
	}
	switch {
	case errors.Is(a.Err, broker.ErrNotFound):
		p.Title, p.Code = shown(name)+": there is no such queue", http.StatusNotFound
	case a.Known:
		p.Title = shown(name) + ": " + headline(a.Value)
	case a.Err != nil:
		p.Title = shown(name) + ": not known now"
	}
	return p, nil
}

// headline is the fact that matters most about a queue.
func headline(s queueView) string {
	var facts []string
	add := func(is bool, format string, args ...any) {
		if is {
			facts = append(facts, fmt.Sprintf(format, args...))
		}
	}
	going, blocking := s.Going(), stuck(s.Blocking)
	for _, f := range s.Findings[:min(len(s.Findings), 1)] {
		add(f.Severity == inspect.Error, "%s", ops.InShort(f))
	}
	add(s.Paused != nil && len(going) > 0, "paused, but %s not stopped yet", plural(len(going), "consumer"))
	if b := s.Breaker; b.Stops() {
		add(true, "no progress for %s: %s failed, none succeeded", printable.Rough(s.Time.Sub(b.Since)),
			plural(b.Failed, "message"))
	}
	switch {
	case s.Holding != nil:
		add(true, "blocked for %s by an exhausted message", printable.Rough(s.Time.Sub(s.Holding.Since)))
	case s.Paused != nil && len(going) == 0:
		add(true, "paused for %s", printable.Rough(s.Time.Sub(s.Paused.At)))
	}
	add(s.Undecodable != "", "blocked by a message that ends every session")
	if len(blocking) > 0 {
		add(true, "blocked for %s by %s", printable.Rough(s.Time.Sub(blocking[0].Since)),
			plural(s.Retrying-(len(s.Blocking)-len(blocking)), "message"))
	}
	waiting := s.AllWaiting().Messages
	add(waiting > 0, "%s waiting, not counted", plural(waiting, "message"))
	add(s.Dead.Missing > 0, "%s unaccounted for", plural(s.Dead.Missing, "dead letter"))
	add(s.BlockedLanes > 0, "%s", plural(s.BlockedLanes, "blocked lane"))
	if s.Unconsumed() && s.Paused == nil {
		ready := fmt.Sprintf("no consumer, %s ready", plural(*s.Ready, "message"))
		add(*s.Ready > 0 && len(blocking) == 0, "stopped: %s", ready)
		add(*s.Ready > 0 && len(blocking) > 0, "%s", ready)
		add(*s.Ready == 0, "no consumer")
	}
	if len(blocking) == 0 && s.Undecodable == "" && s.Paused == nil && s.Dead.Missing == 0 {
		add(len(facts) == 0, "nothing blocks it")
		add(s.Dead.Still > 0, "%s", plural(s.Dead.Still, "dead letter"))
	}
	return strings.Join(facts[:min(len(facts), 3)], ", ")
}

// stuck are the blocking messages without those that may have left the queue.
func stuck(all []ops.Message) []ops.Message {
	return slices.DeleteFunc(slices.Clone(all), func(m ops.Message) bool { return m.State == ops.Forgotten })
}

// Going are the processes that live and have not stopped although the queue is paused.
func (v queueView) Going() []ops.Consumer {
	return slices.DeleteFunc(slices.Clone(v.Processes), func(c ops.Consumer) bool {
		return v.Paused == nil || c.Stopped || c.Silence() != ""
	})
}

// Reasons are the largest groups.
func (v queueView) Reasons() []*ops.Group {
	return v.Groups.Groups[:min(len(v.Groups.Groups), groupsShown)]
}

const groupsShown = 8

// Guess says why the dead-letter queue is a guess: it cannot be seen. If its route is broken, a finding says more.
func (v queueView) Guess() string {
	if slices.ContainsFunc(v.Findings, func(f inspect.Finding) bool { return f.Severe() && f.OfRoute() }) {
		return ""
	}
	return v.Assumed
}
