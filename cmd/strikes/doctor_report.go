package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/jsonl"
	"github.com/strikesmq/strikes/cmd/strikes/internal/term"
	"github.com/strikesmq/strikes/internal/inspect"
)

// Findings about what could not be examined have exit codes of their own.
const (
	codeNotFound    = "queue-not-found"
	codeNoDatabase  = "store-database-missing"
	codeNotStore    = "store-other-protocol"
	codeUnreachable = "store-unreachable"
	codeStoreDenied = "store-denied"
)

// finding is one that the doctor prints, a JSON object a line.
type finding struct {
	Subject  string `json:"subject"` // queue, broker or store
	Name     string `json:"name"`
	VHost    string `json:"vhost,omitempty"` // of a queue
	Code     string `json:"code"`
	Severity string `json:"severity"`
	Seen     string `json:"seen"`
	Impact   string `json:"impact"`
	Fix      string `json:"fix"`
	Command  string `json:"command,omitempty"`
}

func topologyFindings(found []inspect.Finding) []finding {
	var out []finding
	for _, f := range found {
		out = append(out, finding{
			Code: f.Code, Severity: f.Severity.String(), Seen: f.Seen, Impact: f.Impact,
			Fix: f.Fix, Command: f.Command,
		})
	}
	return out
}

// subject is what findings are about.
type subject struct {
	kind, name string
	proven     []string // what is known to be well, by trying
}

// report prints findings as they come, and keeps what the exit code takes.
type report struct {
	out    io.Writer
	json   bool
	vhost  string
	codes  []string // of the errors
	warned int
}

func (r *report) add(at subject, findings []finding) error {
	slices.SortStableFunc(findings, func(a, b finding) int { return strings.Compare(a.Severity, b.Severity) }) // errors first
	for i, f := range findings {
		f.Subject, f.Name = at.kind, at.name
		if at.kind == "queue" {
			f.VHost = r.vhost
		}
		findings[i] = f
		if f.Severity == inspect.Error.String() {
			r.codes = append(r.codes, f.Code)
		} else {
			r.warned++
		}
	}
	if !r.json {
		return r.print(at, findings)
	}
	for _, f := range findings {
		if err := jsonl.NewEncoder(r.out).Encode(f); err != nil {
			return err
		}
	}
	return nil
}

func (r *report) print(at subject, findings []finding) error {
	var b strings.Builder
	state := ""
	if len(findings) == 0 {
		state = ": nothing wrong"
	}
	name := at.name
	if at.kind == "queue" {
		name = term.Shown(name)
	}
	fmt.Fprintf(&b, "%s %s%s\n", at.kind, term.Printable(name, ""), state)
	for _, p := range at.proven {
		fmt.Fprintf(&b, "  proven   %s\n", term.Printable(p, ""))
	}
	for _, f := range findings {
		fmt.Fprintf(&b, "  %-8s %s: %s\n", f.Severity, f.Code, term.Printable(f.Seen, ""))
		fmt.Fprintf(&b, "           impact: %s\n", term.Printable(f.Impact, ""))
		fmt.Fprintf(&b, "           fix: %s\n", term.Printable(f.Fix, ""))
		if f.Command != "" {
			fmt.Fprintf(&b, "           run: %s\n", term.Printable(f.Command, ""))
		}
	}
	_, err := io.WriteString(r.out, b.String())
	return err
}

// verdict is nil if nothing worse than a warning was found.
func (r *report) verdict() error {
	if len(r.codes) == 0 {
		return nil
	}
	return cli.WithCode(fmt.Errorf("%s and %s", term.Plural(len(r.codes), "error"), term.Plural(r.warned, "warning")), doctorCode(r.codes))
}

// doctorCode is the exit code for the errors: what is wrong comes before what could not be examined.
func doctorCode(codes []string) int {
	code, rank := cli.ExitFound, 4
	for _, c := range codes {
		of, at := cli.ExitFound, 0
		switch c {
		case codeUnreachable:
			of, at = cli.ExitUnreachable, 1
		case codeStoreDenied, inspect.CodeDenied:
			of, at = cli.ExitDenied, 2
		case codeNotFound, codeNoDatabase, codeNotStore:
			of, at = cli.ExitMisuse, 3
		}
		if at < rank {
			code, rank = of, at
		}
	}
	return code
}
