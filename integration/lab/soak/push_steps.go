package soak

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/strikesmq/strikes/internal/audit"
	"github.com/strikesmq/strikes/internal/proxy"
)

// watchSteps records the steps of a request to the store, as soon as their reply comes or cannot come any more.
func (p *pusher) watchSteps(words []string) proxy.Treatment {
	all, began := steps(words), time.Now()
	if len(all) == 0 {
		return proxy.Treatment{}
	}
	p.mu.Lock()
	number := p.number
	p.mu.Unlock()
	for _, s := range all {
		if s.isBegun() { // the process may die before the reply
			p.log.Forward(audit.Event{Kind: audit.Asked, Process: number, Session: p.sessionAt(number, began), ID: s.id(),
				Token: s[0], Step: audit.StepBegun})
		}
	}
	return proxy.Treatment{Replied: func(raw []byte) {
		for _, e := range stepped(all, raw) {
			e.Process, e.Session, e.Took = number, p.sessionAt(number, began), time.Since(began)
			p.log.Forward(e)
		}
	}}
}

var errNoReply = errors.New("no reply")

// stepped returns an event for each step of a request, with what the reply to it says. A server that does not know the
// script took none of them.
func stepped(all []stepArgs, raw []byte) (events []audit.Event) {
	reply, err := any(nil), errNoReply
	if raw != nil {
		reply, err = proxy.Parse(raw)
	}
	if failed, is := reply.(error); is {
		err = failed
	}
	if err != nil && strings.HasPrefix(err.Error(), "NOSCRIPT") {
		return nil
	}
	entries, _ := reply.([]any)
	for i, s := range all {
		e := s.event()
		e.Err = text(err)
		if err == nil && i < len(entries) {
			readEntry(&e, entries[i])
		}
		events = append(events, e)
	}
	return events
}

// event is what the request says of a step.
func (s stepArgs) event() audit.Event {
	e := audit.Event{Kind: audit.Stepped, ID: s.id(), Token: s[0], Step: audit.StepEnd}
	if s.isBegun() {
		e.Step = audit.StepBegun
		return e
	}
	causes := []string{"failed", "panicked", "timed-out", "rejected"}
	if slices.Contains(causes, s[commonArgs+1]) { // a START and an END have a number there
		e.Step = audit.StepFail
		return e
	}
	if mode := s.mode(); mode != "" {
		e.Step, e.Isolated, e.Beside = audit.StepStart, mode == "isolated", mode == "beside-abandoned"
	}
	return e
}

// readEntry reads the reply to a step, as record.lua documents it: the reply, the failures, the crashes, the limit.
func readEntry(e *audit.Event, entry any) {
	if err, is := entry.(error); is {
		e.Err = err.Error()
		return
	}
	fields, _ := entry.([]any)
	if len(fields) < 4 {
		e.Err = "a reply that is too short"
		return
	}
	code, _ := fields[0].(string)
	e.Code = strings.ToLower(code)
	if e.Step == audit.StepEnd {
		return
	}
	for i, to := range []*int{&e.Failures, &e.Crashes, &e.Limit} {
		n, _ := fields[i+1].(int64)
		*to = int(n)
	}
}
