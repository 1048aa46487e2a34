package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/jsonl"
	"github.com/strikesmq/strikes/doctor"
	"github.com/strikesmq/strikes/internal/inspect"
	"github.com/strikesmq/strikes/internal/printable"
)

// reports prints reports as they come, and keeps the findings that decide the exit code.
type reports struct {
	out    io.Writer
	json   bool
	flags  string   // that a repair needs, too
	codes  []string // of the errors
	warned int
	unseen []error // why queues were not examined
}

func (p *reports) print(r doctor.Report) error {
	for i, f := range r.Findings {
		r.Findings[i].Repair = strings.Replace(f.Repair, "--fix ", "--fix "+p.flags, 1)
		if f.Severity == inspect.Error {
			p.codes = append(p.codes, f.Code)
		} else {
			p.warned++
		}
	}
	if r.Err != nil {
		p.unseen = append(p.unseen, r.Err)
	}
	if p.json {
		return p.lines(r)
	}
	_, err := io.WriteString(p.out, reportText(r))
	return err
}

// findingLine is a finding in JSON. Without a finding it says why something was not examined, or not in full.
type findingLine struct {
	Subject     string `json:"subject"` // queue, broker or store
	Name        string `json:"name"`
	VHost       string `json:"vhost,omitempty"` // of a queue
	NotExamined string `json:"not_examined,omitempty"`
	*inspect.Finding
}

func (p *reports) lines(r doctor.Report) error {
	out := jsonl.NewEncoder(p.out)
	if r.Err != nil {
		if err := out.Encode(findingLine{r.Subject, r.Name, r.VHost, cli.Plain(r.Err), nil}); err != nil {
			return err
		}
	}
	for _, f := range r.Findings {
		f.Seen, f.Fix = cli.InFlags(f.Seen), cli.InFlags(f.Fix)
		if err := out.Encode(findingLine{r.Subject, r.Name, r.VHost, "", &f}); err != nil {
			return err
		}
	}
	return nil
}

func reportText(r doctor.Report) string {
	var b strings.Builder
	name, state := printable.Text(r.Name, ""), ""
	if r.Subject == "queue" {
		name = printable.Name(r.Name)
	}
	switch {
	case r.Err != nil:
		state = ": not examined: " + printable.Text(r.Err.Error(), "")
	case len(r.Findings) == 0:
		state = ": nothing wrong"
	}
	fmt.Fprintf(&b, "%s %s%s\n", r.Subject, name, state)
	for _, p := range r.Proven {
		fmt.Fprintf(&b, "  proven   %s\n", printable.Text(p, ""))
	}
	printed := map[string]string{} // the code of the first finding with these commands
	for _, f := range r.Findings {
		fmt.Fprintf(&b, "  %-8s %s: %s\n", f.Severity, f.Code, printable.Text(cli.InFlags(f.Seen), ""))
		commands := strings.Join(f.Commands, "\n")
		if first, again := printed[commands]; again && commands != "" {
			f.Fix, f.Commands, f.Repair = f.Fix+": what fixes "+first+" does it", nil, ""
		}
		printed[commands] = cmp.Or(printed[commands], f.Code)
		for _, line := range append(advice(f), howTo(f)...) {
			fmt.Fprintf(&b, "           %s\n", printable.Text(line, ""))
		}
	}
	return b.String()
}

func advice(f inspect.Finding) []string {
	return []string{"impact: " + f.Impact, "fix: " + cli.InFlags(f.Fix)}
}

// howTo returns the commands that fix a finding, each on a line of its own, so that they can be pasted.
func howTo(f inspect.Finding) (lines []string) {
	or := "run:"
	if f.Repair != "" {
		lines, or = []string{"run: " + f.Repair}, "or, with the password of the management API in RABBITMQ_PASSWORD:"
	}
	if len(f.Commands) > 0 {
		lines = append(append(lines, or), f.Commands...)
	}
	return lines
}

// findingText returns a finding and its advice, a line each. It is not escaped.
func findingText(f inspect.Finding) string {
	return strings.Join(append([]string{f.Seen}, advice(f)...), "\n")
}

// verdict is nil if every queue was examined and nothing worse than a warning was found.
func (p *reports) verdict() error {
	found := fmt.Errorf("%s and %s", printable.Plural(len(p.codes), "error"), printable.Plural(p.warned, "warning"))
	code := doctorExit(p.codes)
	if len(p.unseen) > 0 {
		first := p.unseen[0]
		found = fmt.Errorf("%w; %s not examined: %w", found, printable.Plural(len(p.unseen), "queue"), first)
		if len(p.codes) == 0 {
			code = cli.ExitCode(first)
		}
	} else if len(p.codes) == 0 {
		return nil
	}
	return cli.WithCode(found, code)
}

// doctorExit is the exit code for the errors. One of a finding comes before one of a server that did not reply.
func doctorExit(codes []string) int {
	code, rank := cli.ExitFound, 4
	for _, c := range codes {
		of, at := cli.ExitFound, 0
		switch c {
		case inspect.CodeNoStore:
			of, at = cli.ExitUnreachable, 1
		case inspect.CodeStoreDenied, inspect.CodeDenied:
			of, at = cli.ExitDenied, 2
		case inspect.CodeNoQueue, inspect.CodeNoDatabase, inspect.CodeNotStore:
			of, at = cli.ExitMisuse, 3
		}
		if at < rank {
			code, rank = of, at
		}
	}
	return code
}
