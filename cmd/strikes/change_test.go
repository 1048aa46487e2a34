package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/ops"
)

var errThird = errors.New("the third step fails")

// plan is a step of a test.
type plan struct {
	name, question string
	done           *[]string
}

func (p plan) Question(int) string          { return p.question }
func (p plan) Text() string                 { return "step " + p.name }
func (p plan) MarshalJSON() ([]byte, error) { return json.Marshal(p.name) }
func (p plan) Do(context.Context, *ops.Queue) error {
	if p.name == "c" {
		return errThird
	}
	*p.done = append(*p.done, p.name)
	return nil
}

func threeSteps(question string, done *[]string) []ops.Plan {
	return []ops.Plan{plan{"a", question, done}, plan{"b", question, done}, plan{"c", question, done}}
}

func TestChange(t *testing.T) {
	for name, tt := range map[string]struct {
		question  string
		verb      changeVerb
		done, out string
		failed    bool
	}{
		"dry run":                {"", changeVerb{dryRun: true}, "", "step a\nstep b\nstep c\n", false},
		"dry run with question":  {"Go on?", changeVerb{dryRun: true}, "", "step a\nstep b\nstep c\n", false},
		"without a terminal":     {"Go on?", changeVerb{}, "", "", true},
		"--yes, until one fails": {"Go on?", changeVerb{yes: true}, "ab", "step a\nstep b\n", true},
		"--json":                 {"", changeVerb{storeVerb: storeVerb{json: true}}, "ab", "\"a\"\n\"b\"\n", true},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			var done []string
			tt.verb.Streams = cli.Streams{In: strings.NewReader(""), Out: &out, Err: &out}
			err := tt.verb.makeAll(t.Context(), nil, threeSteps(tt.question, &done))
			if got := strings.Join(done, ""); got != tt.done || out.String() != tt.out || (err != nil) != tt.failed {
				t.Errorf("did %q, printed %q, %v", got, out.String(), err)
			}
		})
	}
}

func TestChangeOnAFullDisk(t *testing.T) {
	var done []string
	c := changeVerb{storeVerb: storeVerb{Streams: cli.Streams{Out: &full{}}}, dryRun: true}
	if err := c.makeAll(t.Context(), nil, threeSteps("", &done)); !errors.Is(err, errFull) {
		t.Error(err)
	}
}

func TestNote(t *testing.T) {
	blank := changeVerb{note: note{why: " ", required: true}}
	if _, err := blank.change(t.Context(), ops.VerbSkip, "q", "a"); cli.ExitCode(err) != cli.ExitMisuse {
		t.Errorf("without a reason: %v", err)
	}
	given := note{why: " the warehouse is down "}
	if n := given.given(); n.Why != "the warehouse is down" || !strings.Contains(n.By, "@") {
		t.Errorf("%+v", n)
	}
}
