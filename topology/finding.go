package topology

import (
	"fmt"
	"strings"
)

// Finding is one reason why a queue must not be consumed from.
type Finding struct {
	Code   string // stable, such as "requeue-to-tail"
	Seen   string // the fact
	Impact string // what it leads to
	Fix    string // what to change; Management and AllowDrop are those of Need
}

// String returns the finding on one line.
func (f Finding) String() string {
	return fmt.Sprintf("%s: %s; %s. To fix: %s", f.Code, f.Seen, f.Impact, f.Fix)
}

// RefusedError is returned by [Check] for a queue that must not be consumed from. Do not retry it: nothing changes
// until the queue, the broker or the Need does.
type RefusedError struct {
	Queue    string
	Findings []Finding // at least one
}

// Error names the queue and gives each finding, one a line if there are several.
func (e *RefusedError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "topology: queue %q refused", e.Queue)
	if len(e.Findings) == 1 {
		return b.String() + ": " + e.Findings[0].String()
	}
	fmt.Fprintf(&b, " for %d reasons", len(e.Findings))
	for i, f := range e.Findings {
		fmt.Fprintf(&b, "\n  %d. %s", i+1, f)
	}
	return b.String()
}
