package inspect

import (
	"fmt"
	"strings"
)

// Severity says whether a [Finding] keeps consumers from starting.
type Severity int

const (
	// Warning says that messages or their order are lost in a known situation, or may be.
	Warning Severity = iota + 1
	// Error says that messages are lost, reordered or dead-lettered early, or may be.
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

// Finding is one thing that is wrong with a queue, or cannot be seen.
type Finding struct {
	Code     string   `json:"code"` // stable, such as "requeue-to-tail"
	Severity Severity `json:"severity"`
	Seen     string   `json:"seen"`
	Impact   string   `json:"impact"`
	Fix      string   `json:"fix"`

	// Commands are lines for a shell that fix it, one after the other. Requests to the management API take its
	// password from RABBITMQ_PASSWORD. Names are quoted in them. Only package doctor writes them.
	Commands []string `json:"commands,omitempty"`
	Repair   string   `json:"repair,omitempty"` // the command of strikes that does it, with its questions

	// About is the dead-letter queue or the policy that the finding is about, if it is not about the queue itself.
	About string `json:"-"`
}

// String returns the finding on one line.
func (f Finding) String() string {
	return fmt.Sprintf("%s: %s; %s. To fix: %s", f.Code, f.Seen, f.Impact, f.Fix)
}

// OfRoute reports whether the finding is about the dead-letter route or the dead-letter queue.
func (f Finding) OfRoute() bool { return strings.Contains(f.Code, "dead-letter") }

// Vars are the values for the {names} in a text.
type Vars map[string]any

// Say returns the finding of an entry of the catalogue.
func Say(entry string, v Vars) Finding {
	code, _, _ := strings.Cut(entry, "/")
	var pairs []string
	for name, value := range v {
		pairs = append(pairs, "{"+name+"}", fmt.Sprint(value))
	}
	fill := strings.NewReplacer(pairs...)
	t := catalogue[entry]
	return Finding{Code: code, Severity: t.severity, Seen: fill.Replace(t.seen), Impact: fill.Replace(t.impact),
		Fix: fill.Replace(t.fix)}
}

// quoted is a name as it appears in a finding.
func quoted(name string) string { return fmt.Sprintf("%q", name) }

// as returns the finding with another severity.
func (f Finding) as(s Severity) Finding {
	f.Severity = s
	return f
}

// about returns the finding with what it is about.
func (f Finding) about(name string) Finding {
	f.About = name
	return f
}
