package change

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
)

var errThird = errors.New("the third step fails")

func threeSteps(done *[]string) Change[string] {
	return Change[string]{
		Steps: []string{"a", "b", "c"},
		Do: func(_ context.Context, step *string) error {
			if *step == "c" {
				return errThird
			}
			*done = append(*done, *step)
			return nil
		},
		Text: func(step string) string { return "step " + step },
	}
}

func TestChange(t *testing.T) {
	for name, tt := range map[string]struct {
		question  string
		options   Options
		done, out string
		failed    bool
	}{
		"dry run":                {"", Options{DryRun: true}, "", "step a\nstep b\nstep c\n", false},
		"dry run with question":  {"Go on?", Options{DryRun: true}, "", "step a\nstep b\nstep c\n", false},
		"without a terminal":     {"Go on?", Options{}, "", "", true},
		"--yes, until one fails": {"Go on?", Options{Yes: true}, "ab", "step a\nstep b\n", true},
		"--json":                 {"", Options{JSON: true}, "ab", "\"a\"\n\"b\"\n", true},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			var done []string
			ch := threeSteps(&done)
			ch.Question = tt.question
			err := ch.Make(t.Context(), cli.Streams{In: strings.NewReader(""), Out: &out, Err: &out}, tt.options)
			if got := strings.Join(done, ""); got != tt.done || out.String() != tt.out || (err != nil) != tt.failed {
				t.Errorf("did %q, printed %q, %v", got, out.String(), err)
			}
		})
	}
}

type fullDisk struct{}

var errFull = errors.New("no space left")

func (fullDisk) Write([]byte) (int, error) { return 0, errFull }

func TestChangeOnAFullDisk(t *testing.T) {
	var done []string
	if err := threeSteps(&done).Make(t.Context(), cli.Streams{Out: fullDisk{}}, Options{DryRun: true}); !errors.Is(err,
		errFull) {
		t.Error(err)
	}
}

func TestNote(t *testing.T) {
	note := Note{Why: " "}
	if _, err := note.Note(); cli.ExitCode(err) != cli.ExitMisuse {
		t.Errorf("without a reason: %v", err)
	}
	note = Note{Why: " the warehouse is down "}
	if n, err := note.Note(); err != nil || n.Why != "the warehouse is down" || !strings.Contains(n.By, "@") {
		t.Errorf("%+v, %v", n, err)
	}
}
