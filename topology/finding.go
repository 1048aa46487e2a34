package topology

import (
	"fmt"
	"strings"
)

// Severity says whether a [Finding] keeps consumers from starting.
type Severity int

const (
	// Warning says that it works, or may work, but a known situation loses messages, or
	// their order, or it could not be seen whether it does. Check logs it.
	Warning Severity = iota + 1
	// Error says that messages would be lost, reordered or dead-lettered early, or it
	// cannot be shown that they would not. Check refuses.
	Error
)

// String returns "warning" or "error".
func (s Severity) String() string {
	switch s {
	case Warning:
		return "warning"
	case Error:
		return "error"
	}
	return fmt.Sprintf("severity %d", int(s))
}

// MarshalText encodes the severity as String does.
func (s Severity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Finding is one thing that is wrong with a queue, or could not be told.
type Finding struct {
	Code     string   `json:"code"` // stable, such as "requeue-to-tail"
	Severity Severity `json:"severity"`
	Seen     string   `json:"seen"` // what was found
	Why      string   `json:"why"`  // what comes of it
	Fix      string   `json:"fix"`  // what to change

	// Command is a line for a shell that changes it, if one does: a request to
	// the management API, which asks for the password. Names are quoted in it.
	Command string `json:"command,omitempty"`
}

// String returns the finding on one line.
func (f Finding) String() string {
	return fmt.Sprintf("%s: %s; %s. To fix: %s", f.Code, f.Seen, f.Why, f.Fix)
}

// count is a number of things.
func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// RefusedError is what [Check] returns for a queue that must not be consumed
// from. Trying again changes nothing until somebody changes the queue, the
// broker or the Need; so do not retry it.
type RefusedError struct {
	Queue    string
	Findings []Finding // every Error, at least one
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
