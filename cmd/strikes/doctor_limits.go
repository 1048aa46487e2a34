package main

import (
	"context"
	"slices"

	"github.com/strikesmq/strikes/cmd/strikes/internal/connect"
	"github.com/strikesmq/strikes/cmd/strikes/internal/render"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/inspect"
	"github.com/strikesmq/strikes/internal/records"
	"github.com/strikesmq/strikes/internal/shell"
)

// maxJudged is how many records of a queue the doctor reads: those that were written last.
const maxJudged = 1000

// limits judges whether the consumers of a queue agree on how often they retry. A store that does not answer is a finding of
// its own.
func (r *rounds) limits(ctx context.Context, queue string) []finding {
	if r.counts == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, connect.CheckTimeout)
	defer cancel()
	seen, err := limitsOf(ctx, r.counts, r.report.vhost, queue)
	if err != nil {
		r.counts = nil
		return nil
	}
	return limitFindings(queue, seen)
}

// limitsOf returns the limits on which the consumers of a queue disagree: none if an operator set one, which is in force on all.
func limitsOf(ctx context.Context, store *counter.Counter, vhost, queue string) ([]records.OwnLimit, error) {
	if set, err := store.Admin().Limit(ctx, vhost, queue); set != nil || err != nil {
		return nil, err
	}
	now, err := store.Admin().Now(ctx)
	if err != nil {
		return nil, err
	}
	var all []counter.Record
	for r, err := range store.Admin().List(ctx, vhost, queue) {
		if err != nil {
			return nil, err
		}
		if all = append(all, r); len(all) == maxJudged {
			break
		}
	}
	return records.Disagreement(slices.Values(all), now), nil
}

func limitFindings(queue string, seen []records.OwnLimit) []finding {
	if len(seen) == 0 {
		return nil
	}
	return []finding{{
		Code: "limits-differ", Severity: inspect.Warning.String(), Seen: render.Disagreement(seen),
		Impact: "how many attempts a message gets depends on which consumer takes its last step",
		Fix:    "give all consumers the same MaxRetries, or set one limit for all of them: strikes limit set " + shell.Word(queue) + " N",
	}}
}
