package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/strikesmq/strikes/integration/internal/install"
)

func TestToolsFor(t *testing.T) {
	all := []string{"rabbitmq", "redis", "cc"}
	tests := []struct {
		name string
		need []string
		env  map[string]string
		want []install.Tool
		bad  bool
	}{
		{"nothing named", all, nil, []install.Tool{install.RabbitMQ, install.Redis, install.CCompiler}, false},
		{"both named", all, map[string]string{"AMQP_URL": "amqp://a", "REDIS_URL": "redis://b"}, []install.Tool{install.CCompiler}, false},
		{"demo", []string{"rabbitmq"}, map[string]string{"REDIS_URL": "redis://b"}, []install.Tool{install.RabbitMQ}, false},
		{"promtool", []string{"promtool"}, nil, []install.Tool{install.Promtool}, false},
		{"browser", []string{"browser"}, nil, []install.Tool{install.Chromium, install.Axe}, false},
		{"unknown", []string{"kafka"}, nil, nil, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := toolsFor(tt.need, func(name string) string { return tt.env[name] })
			if !slices.Equal(got, tt.want) || (err != nil) != tt.bad {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}

func TestCommandStatus(t *testing.T) {
	var exit exitError
	err := command(t.Context(), []string{"/bin/sh", "-c", "exit 7"}, nil)
	if !errors.As(err, &exit) || exit != 7 {
		t.Errorf("exit 7: %v", err)
	}
	if err := command(t.Context(), []string{"/nowhere"}, nil); err == nil || errors.As(err, &exit) {
		t.Errorf("no such command: %v", err)
	}
}

// fakeDocker answers as docker compose does and notes its calls; up fails if
// DOCKER_FAILS is set.
const fakeDocker = `#!/bin/sh
[ "$2" != ls ] || exit 0
shift 5 # compose --file F --project-name P
echo "$* on $STRIKES_AMQP_PORT" >>"$CALLS"
case "$1 $2 $3" in
up*) [ -z "$DOCKER_FAILS" ] || exit 17 ;;
"port rabbitmq 5672") echo 127.0.0.1:40001 ;;
"port rabbitmq 15672") echo 127.0.0.1:40002 ;;
"port redis 6379") echo 127.0.0.1:40003 ;;
esac
`

func fakeDockerCalls(t *testing.T) func() []string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "docker"), []byte(fakeDocker), 0o755); err != nil {
		t.Fatal(err)
	}
	calls := filepath.Join(dir, "calls")
	t.Setenv("PATH", dir)
	t.Setenv("CALLS", calls)
	return func() []string {
		b, err := os.ReadFile(calls)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Split(strings.TrimSpace(string(b)), "\n")
	}
}

func TestWithCompose(t *testing.T) {
	const (
		broker = "up --detach --wait rabbitmq on 0"
		down   = "down --volumes --timeout 5 on 0"
	)
	both := []install.Tool{install.RabbitMQ, install.Redis}
	tests := []struct {
		name    string
		missing []install.Tool
		fails   string
		status  string
		saw     string // by the command; empty if it must not run
		calls   []string
		err     bool
	}{
		{
			"both", both, "", "exit 0",
			"amqp://guest:guest@127.0.0.1:40001/ http://guest:guest@127.0.0.1:40002 redis://127.0.0.1:40003/0\n",
			[]string{
				"up --detach --wait rabbitmq redis on 0",
				"port rabbitmq 5672 on 0", "port rabbitmq 15672 on 0", "port redis 6379 on 0", down,
			}, false,
		},
		{
			"broker only, and the command fails", both[:1], "", "exit 3",
			"amqp://guest:guest@127.0.0.1:40001/ http://guest:guest@127.0.0.1:40002 mine\n",
			[]string{broker, "port rabbitmq 5672 on 0", "port rabbitmq 15672 on 0", down}, true,
		},
		{"it does not come up", both[:1], "yes", "exit 0", "", []string{broker, down}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			calls := fakeDockerCalls(t)
			t.Setenv("DOCKER_FAILS", tt.fails)
			t.Setenv("REDIS_URL", "mine")
			saw := filepath.Join(t.TempDir(), "saw")
			script := `echo "$AMQP_URL $STRIKES_MANAGEMENT_URL $REDIS_URL" >` + saw + "; " + tt.status
			err := withCompose(t.Context(), tt.missing, []string{"/bin/sh", "-c", script})
			if (err != nil) != tt.err {
				t.Errorf("err = %v", err)
			}
			if got, _ := os.ReadFile(saw); string(got) != tt.saw {
				t.Errorf("the command saw %q, want %q", got, tt.saw)
			}
			if got := calls(); !slices.Equal(got, tt.calls) {
				t.Errorf("docker compose was called with\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(tt.calls, "\n"))
			}
		})
	}
}

func TestComposeDownAfterInterrupt(t *testing.T) {
	calls := fakeDockerCalls(t)
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	if err := withCompose(ctx, []install.Tool{install.Redis}, []string{"/bin/true"}); !errors.Is(err, context.Canceled) {
		t.Errorf("err = %v", err)
	}
	if got := calls(); !slices.Equal(got, []string{"down --volumes --timeout 5 on 0"}) {
		t.Errorf("called %q", got)
	}
}

func TestComposable(t *testing.T) {
	t.Chdir(t.TempDir())
	broker := []install.Tool{install.RabbitMQ}
	if err := composable(t.Context(), broker); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without the file: %v", err)
	}
	if err := os.WriteFile(composeFile, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", t.TempDir())
	if err := composable(t.Context(), broker); err == nil || !strings.Contains(err.Error(), "Docker does not answer") {
		t.Errorf("without Docker: %v", err)
	}
	fakeDockerCalls(t)
	if err := composable(t.Context(), broker); err != nil {
		t.Errorf("with both: %v", err)
	}
	if err := composable(t.Context(), []install.Tool{install.CCompiler}); err == nil {
		t.Error("a C compiler from containers")
	}
}
