package main

import (
	"cmp"
	"slices"
	"time"

	"github.com/strikesmq/strikes/counter"
)

// What keeps a message where it is, in a few words.
const (
	blockRuns      = "running"
	blockRunsAlone = "running alone" // nothing else runs in its process meanwhile
	blockLeft      = "left running"  // but nobody consumes
	blockWaits     = "waiting"       // for its backoff
	blockReady     = "ready"         // for the next consumer
	blockForgotten = "forgotten"     // nobody has taken it for long after its backoff: no consumer, or it left the queue otherwise
)

// forgottenAfter is how long a message may stand ready before that is worth a word of its own.
const forgottenAfter = 5 * time.Minute

// blocking is a message that has failed, runs again, or is suspected: what stands behind it may have to wait.
type blocking struct {
	ID        string    `json:"id"`
	Life      string    `json:"life,omitempty"`
	State     string    `json:"state"`
	Attempt   int       `json:"attempt"`           // the one that runs, or is next
	Of        int       `json:"of,omitempty"`      // attempts, if that is known
	Since     time.Time `json:"since,omitzero"`    // first charge, or start if there is none
	Running   time.Time `json:"running,omitzero"`  // since when the attempt runs
	NextTry   time.Time `json:"next_try,omitzero"` // not before
	Failures  int       `json:"failures"`
	Crashes   int       `json:"crashes"`
	Suspect   bool      `json:"suspect,omitempty"`
	Granted   int       `json:"granted,omitempty"`
	LastError string    `json:"last_error,omitempty"`
	Holder    string    `json:"holder,omitempty"` // the process that took the last step
}

// blockingOf reads a record of a queue that stands so.
func blockingOf(r counter.Record, set *counter.Override, s *standing) blocking {
	b := blocking{
		ID: r.ID, Life: r.Generation, State: blockState(r, s), Attempt: r.Counted() + 1, Of: r.InForce(set), Since: r.FirstTime,
		Failures: r.Failures, Crashes: r.Crashes, Suspect: r.Suspect, Granted: r.Granted.Attempts,
		LastError: r.Reason, Holder: r.Holder,
	}
	if b.Since.IsZero() {
		b.Since = r.OpenSince
	}
	switch b.State {
	case blockRuns, blockRunsAlone, blockLeft:
		b.Running = r.OpenSince
	case blockWaits:
		b.NextTry = s.Time.Add(r.Left(s.Time))
	}
	return b
}

func blockState(r counter.Record, s *standing) string {
	ready := r.Due
	if ready.IsZero() {
		ready = r.LastTime
	}
	switch {
	case r.OpenToken != "" && s.Consumers == 0:
		return blockLeft
	case r.OpenToken != "" && r.OpenMode == counter.ModeIsolated:
		return blockRunsAlone
	case r.OpenToken != "":
		return blockRuns
	case r.Left(s.Time) > 0:
		return blockWaits
	case s.Time.Sub(ready) > forgottenAfter:
		return blockForgotten
	}
	return blockReady
}

// blocks reports whether a record is of a message that blocks. One that was only stopped, or reset, does not.
func blocks(r counter.Record) bool {
	return r.State == counter.StateLive && (r.Counted() > 0 || r.OpenToken != "")
}

// byLength puts first what blocks for longest, which in an ordered queue is its head, and last what nobody has taken for
// long.
func byLength(a, b blocking) int {
	rank := func(b blocking) int {
		if b.State == blockForgotten {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(rank(a), rank(b)), a.Since.Compare(b.Since), cmp.Compare(a.ID, b.ID))
}

// reason is why messages were dead-lettered, and how many.
type reason struct {
	Reason   string `json:"reason"`
	Messages int    `json:"messages"`
}

// maxReasons is how many reasons are told; the rest is summed up.
const maxReasons = 20

// tally counts reasons.
type tally map[string]int

// most returns the reasons with the most messages, and how many messages have others.
func (t tally) most(n int) (most []reason, others int) {
	for text, messages := range t {
		most = append(most, reason{text, messages})
	}
	slices.SortFunc(most, func(a, b reason) int {
		return cmp.Or(cmp.Compare(b.Messages, a.Messages), cmp.Compare(a.Reason, b.Reason))
	})
	for _, r := range most[min(n, len(most)):] {
		others += r.Messages
	}
	return most[:min(n, len(most))], others
}
