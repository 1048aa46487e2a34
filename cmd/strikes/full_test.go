package main

import (
	"errors"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/jsonl"
	"github.com/strikesmq/strikes/cmd/strikes/internal/render"
	"github.com/strikesmq/strikes/deadletter"
)

// full is a disk on which there is no room for some bytes more.
type full struct{ room int }

var errFull = errors.New("no space left")

func (f *full) Write(p []byte) (int, error) {
	if f.room -= len(p); f.room < 0 {
		return 0, errFull
	}
	return len(p), nil
}

func TestHelpOnAFullDisk(t *testing.T) {
	t.Parallel()
	for _, args := range []string{"", "help", "help dead list", "dead", "dead list --help", "completion bash", "version",
		"--version", "store migrate --print --store-url postgres://"} {
		var stderr strings.Builder
		code := run(t.Context(), cli.Streams{Out: &full{}, Err: &stderr},
			append([]string{"strikes"}, strings.Fields(args)...))
		if code != cli.ExitFailed || stderr.String() != "strikes: no space left\n" {
			t.Errorf("strikes %s: exit code %d, %q", args, code, &stderr)
		}
	}
}

func TestDeadShowOnAFullDisk(t *testing.T) {
	t.Parallel()
	out := &full{room: 200} // for all but the body
	letter := &deadletter.Message{Publishing: amqp.Publishing{Body: []byte(strings.Repeat("b", 200))}}
	if err := render.DeadLetter(out, letter); !errors.Is(err, errFull) {
		t.Errorf("dead show: %v", err)
	}
}

func TestReplayOnAFullDisk(t *testing.T) {
	r := &report{want: seek(deadletter.Filter{}), json: jsonl.NewEncoder(&full{})}
	if r.message(&deadletter.Message{}, nil); !errors.Is(r.failed, errFull) {
		t.Errorf("replay --json: %v", r.failed)
	}
}
