package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/doctor"
	"github.com/strikesmq/strikes/internal/inspect"
)

func TestExitCode(t *testing.T) {
	tests := []struct {
		codes []string
		want  int
	}{
		{[]string{"auto-ack"}, 5},
		{[]string{inspect.CodeNoQueue, "auto-ack", inspect.CodeNoStore}, 5},
		{[]string{inspect.CodeNoQueue, inspect.CodeNoStore, inspect.CodeStoreDenied}, 69},
		{[]string{inspect.CodeNoQueue, inspect.CodeStoreDenied}, 4},
		{[]string{inspect.CodeNoQueue, inspect.CodeDenied}, 4},
		{[]string{inspect.CodeUnknown}, 5},
		{[]string{inspect.CodeNoQueue}, 2},
		{[]string{inspect.CodeNoDatabase}, 2},
	}
	for _, tt := range tests {
		if got := doctorExit(tt.codes); got != tt.want {
			t.Errorf("%q: %d, want %d", tt.codes, got, tt.want)
		}
	}
	if err := new(reports).verdict(); err != nil {
		t.Errorf("nothing found: %v", err)
	}
}

// A queue that could not be examined is not one in which nothing is wrong.
func TestUnexaminedQueue(t *testing.T) {
	var out bytes.Buffer
	p := reports{out: &out}
	gone := cli.WithCode(errors.New("inspect queue \"q\": refused"), cli.ExitDenied)
	if err := p.print(doctor.Report{Subject: "queue", Name: "q", Err: gone}); err != nil {
		t.Fatal(err)
	}
	if text := out.String(); text != "queue q: not examined: inspect queue \"q\": refused\n" {
		t.Errorf("printed %q", text)
	}
	for _, tt := range []struct {
		found []inspect.Finding
		want  int
	}{{nil, cli.ExitDenied}, {[]inspect.Finding{{Code: "auto-ack", Severity: inspect.Error}}, cli.ExitFound}} {
		if err := p.print(doctor.Report{Subject: "queue", Name: "r", Findings: tt.found}); err != nil {
			t.Fatal(err)
		}
		err := p.verdict()
		if cli.ExitCode(err) != tt.want || !errors.Is(err, gone) || !strings.Contains(err.Error(), "1 queue not examined") {
			t.Errorf("%v, exit %d, want %d", err, cli.ExitCode(err), tt.want)
		}
	}
}

// A finding may quote text from anywhere.
func TestReportEscapes(t *testing.T) {
	var out bytes.Buffer
	p := reports{out: &out}
	bad := inspect.Finding{Code: "c", Severity: inspect.Error, Seen: "\x1b[2J", Impact: "a\nb", Fix: "\x07",
		Commands: []string{"\u202e"}}
	report := doctor.Report{Subject: "queue", Name: "q\r", VHost: "/", Proven: []string{"\x1b"},
		Findings: []inspect.Finding{bad}}
	need(t, p.print(report))
	if strings.ContainsAny(out.String(), "\x1b\x07\r\u202e") || strings.Count(out.String(), "\n") != 7 {
		t.Errorf("%q", out.String())
	}
	out.Reset()
	p.json = true
	need(t, p.print(report))
	var got struct{ Name, Seen, VHost string }
	if err := json.Unmarshal(out.Bytes(), &got); err != nil || got.Name != "q\r" || got.Seen != bad.Seen ||
		got.VHost != "/" || strings.Contains(out.String(), "\x1b") {
		t.Errorf("%q: %+v, %v", out.String(), got, err)
	}
	var left cli.Coded
	if err := p.verdict(); !errors.As(err, &left) || left.Code != cli.ExitFound {
		t.Errorf("verdict: %v", err)
	}
}

// One policy may fix several findings: its command is long, and printed once.
func TestACommandIsPrintedOnce(t *testing.T) {
	finding := func(code string, commands ...string) inspect.Finding {
		f := inspect.Finding{Code: code, Severity: inspect.Error, Seen: "s", Impact: "i", Fix: "f", Commands: commands}
		if len(commands) > 0 {
			f.Repair = "strikes doctor --fix q"
		}
		return f
	}
	got := reportText(doctor.Report{Subject: "queue", Name: "q", Findings: []inspect.Finding{
		finding("a", "curl 0", "curl 1"), finding("b"), finding("c", "curl 0", "curl 1"), finding("d", "curl 2"),
	}})
	if strings.Count(got, "           curl 0\n           curl 1\n") != 1 || strings.Count(got, "curl 2\n") != 1 ||
		strings.Count(got, "fix: f: what fixes a does it\n") != 1 || strings.Count(got,
		"run: strikes doctor --fix q\n") != 2 {
		t.Error(got)
	}
}

func TestTheDoctorTakesTheBackoffOfConsume(t *testing.T) {
	for backoff, want := range map[string]time.Duration{
		"": 30 * time.Second, "1s..10m": 10 * time.Minute, "5s": 5 * time.Second, "0": 1,
	} {
		t.Run(backoff, func(t *testing.T) {
			var c examination
			c.addTo(new(cobra.Command))
			c.backoff = cmp.Or(backoff, c.backoff)
			if need, err := c.need(); err != nil || need.MaxBackoff != want {
				t.Errorf("%v, %v, want %v", need.MaxBackoff, err, want)
			}
		})
	}
}
