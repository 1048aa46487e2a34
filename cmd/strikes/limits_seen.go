package main

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/strikesmq/strikes/cmd/strikes/internal/term"
	"github.com/strikesmq/strikes/counter"
)

// limitSeen is a limit that a consumer, not an operator, gave a live message, and a process that gave it.
type limitSeen struct {
	MaxRetries int    `json:"max_retries"`
	Holder     string `json:"holder"`
}

// limitsIn are the limits that consumers gave the live messages of a queue in the last minutes, the lowest first; none if all
// are the same.
func limitsIn(records iter.Seq[counter.Record], now time.Time) []limitSeen {
	var seen []limitSeen
	for r := range records {
		if r.State != counter.StateLive || r.Limit < 1 || now.Sub(lastStep(r)) > forgottenAfter {
			continue
		}
		of := limitSeen{r.Limit - 1, r.Holder}
		if i := slices.IndexFunc(seen, func(s limitSeen) bool { return s.MaxRetries == of.MaxRetries }); i < 0 {
			seen = append(seen, of)
		} else if of.Holder < seen[i].Holder {
			seen[i] = of
		}
	}
	if len(seen) < 2 {
		return nil
	}
	slices.SortFunc(seen, func(a, b limitSeen) int { return a.MaxRetries - b.MaxRetries })
	return seen
}

// lastStep is when a consumer took a step with the message, as far as the record tells.
func lastStep(r counter.Record) time.Time {
	if r.OpenSince.After(r.LastTime) {
		return r.OpenSince
	}
	return r.LastTime
}

// disagreeing says which limits there are.
func disagreeing(seen []limitSeen) string {
	var limits []string
	for _, s := range seen {
		limits = append(limits, fmt.Sprintf("%d (%s)", s.MaxRetries, s.Holder))
	}
	return "consumers of one queue disagree on MaxRetries: " + strings.Join(limits, ", ")
}

// disagreement returns the row of status about it, if they do.
func disagreement(seen []limitSeen) []term.Row {
	if len(seen) == 0 {
		return nil
	}
	return []term.Row{{Text: "limit      " + term.Printable(disagreeing(seen), ""), Kind: term.Alarm}}
}
