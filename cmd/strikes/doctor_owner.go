package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/strikesmq/strikes/internal/doctor"
	"github.com/strikesmq/strikes/internal/inspect"
	"github.com/strikesmq/strikes/internal/queueinfo"
	"github.com/strikesmq/strikes/internal/shell"
)

const codeTakesDeadLetters = "takes-dead-letters"

// ownDeadLetters are the findings about a queue without a known dead-letter exchange. A queue that takes the dead letters of
// others needs none.
var ownDeadLetters = []string{"no-dead-letter-exchange", "dead-letter-unproven"}

// owned replaces the findings about a named queue that takes the dead letters of others: it was judged as one that consumers
// retry from.
func (r *rounds) owned(ctx context.Context, name string, findings []finding) ([]finding, error) {
	if r.listed || !slices.ContainsFunc(findings, func(f finding) bool { return slices.Contains(ownDeadLetters, f.Code) }) {
		return findings, nil
	}
	owners, err := r.owners(ctx, name)
	if err != nil || len(owners) == 0 {
		return findings, err
	}
	var names []string
	line := "strikes doctor"
	if slices.ContainsFunc(owners, func(o string) bool { return strings.HasPrefix(o, "-") }) {
		line += " --" // it is no flag
	}
	for _, o := range owners {
		names = append(names, fmt.Sprintf("%q", o))
		line += " " + shell.Word(o)
	}
	return []finding{{
		Code: codeTakesDeadLetters, Severity: inspect.Warning.String(),
		Seen:    "the queue takes the dead letters of " + strings.Join(names, ", ") + ", and has no dead-letter exchange",
		Impact:  "it needs none while dead letters only wait in it; messages that a consumer rejects from it are lost silently",
		Fix:     "check the dead-letter route from its source queue",
		Command: line,
	}}, nil
}

// owners returns the queues that dead-letter to the named one. Without the management API only its name can tell.
func (r *rounds) owners(ctx context.Context, name string) ([]string, error) {
	if r.all == nil && r.need.Management != "" {
		if all, err := doctor.List(ctx, r.conn, r.need); err == nil {
			r.all = &all
		}
	}
	if r.all != nil {
		return r.all.DeadLetters[name], nil
	}
	owner, is := strings.CutSuffix(name, ".dlq")
	if !is || queueinfo.CheckName(owner) != nil {
		return nil, nil //nolint:nilerr // a name that no queue has is no error
	}
	if exists, _, err := queueinfo.Find(ctx, r.conn, owner); err != nil || exists != queueinfo.Yes {
		return nil, err
	}
	need := r.need
	need.Queue = owner
	found, err := doctor.FindDeadLetters(ctx, r.conn, need)
	if err != nil {
		return nil, err
	}
	if found.Guess != name && !slices.ContainsFunc(found.Queues, func(q doctor.LandingQueue) bool { return q.Name == name }) {
		return nil, nil
	}
	return []string{owner}, nil
}
