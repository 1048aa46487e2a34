package main

import (
	"bytes"
	"errors"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/jsonl"
	"github.com/strikesmq/strikes/cmd/strikes/internal/render"
	"github.com/strikesmq/strikes/deadletter"
	"github.com/strikesmq/strikes/internal/servertest"
)

var need = servertest.Need

// TestMain also makes the test binary act as strikes, for the scripts and for commands that start themselves.
func TestMain(m *testing.M) {
	if os.Getenv("GORACE") == "" { // with the race detector on, every process that exits 0 would sleep for a second
		_ = os.Setenv("GORACE", quickExit)
	}
	testscript.Main(suite{m}, map[string]func(){"strikes": main})
}

const quickExit = "atexit_sleep_ms=0"

// suite stops the servers after the tests, and finds leaked goroutines.
type suite struct{ m *testing.M }

func (s suite) Run() int { return servertest.Run(s.m) }

// The servers of those tests that need some: AMQP_URL and REDIS_URL where given, else private ones.
var (
	brokerURL = servertest.BrokerURL
	storeURL  = servertest.StoreURL

	managementURL = servertest.ManagementURL
)

// output is the output of commands, from several goroutines.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// TestMisuse: an error of the parser, or of a setting that a library refuses, is in words of the command line, without
// a password, and quotes the typed words unchanged. testdata/misuse.txt has the commands, each with its error.
func TestMisuse(t *testing.T) {
	t.Setenv("AMQP_URL", "amqp://127.0.0.1:1")
	t.Setenv("REDIS_URL", "redis://127.0.0.1:1")
	text, err := os.ReadFile("testdata/misuse.txt")
	need(t, err)
	for example := range strings.SplitSeq(strings.TrimSpace(string(text)), "\n\n") {
		command, want, _ := strings.Cut(strings.TrimPrefix(example, "$ "), "\n")
		want = strings.ReplaceAll(want, "\n", " ") + "\n" // a long error has several lines
		t.Run(command, func(t *testing.T) {
			words := strings.Fields(command)
			if name, value, set := strings.Cut(words[0], "="); set {
				t.Setenv(name, value)
				words = words[1:]
			}
			code, out, errs := called(t, words[1:]...)
			if code != cli.ExitMisuse || errs != want || out != "" {
				t.Errorf("exit code %d, %q, %q", code, errs, out)
			}
		})
	}
}

func TestBuild(t *testing.T) {
	t.Parallel()
	suffix := " (" + runtime.Version() + ", " + runtime.GOOS + "/" + runtime.GOARCH + ")"
	settings := []debug.BuildSetting{{Key: "vcs.revision", Value: "abc123"}, {Key: "vcs.modified", Value: "true"},
		{Key: "vcs.time", Value: "2026-01-01T00:00:00Z"}}
	tests := []struct {
		info *debug.BuildInfo
		want string
	}{
		{nil, "strikes (devel)"},
		{&debug.BuildInfo{}, "strikes (devel)"},
		{&debug.BuildInfo{Main: debug.Module{Version: "v1.2.3"}}, "strikes v1.2.3"},
		{&debug.BuildInfo{Main: debug.Module{Version: "(devel)"}, Settings: settings}, "strikes (devel) abc123, modified"},
		{&debug.BuildInfo{Main: debug.Module{Version: "v1.2.3"}, Settings: settings[:1]}, "strikes v1.2.3 abc123"},
	}
	for _, tt := range tests {
		if got := buildOf(tt.info); got != tt.want+suffix {
			t.Errorf("%q, want %q", got, tt.want+suffix)
		}
	}
}

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
