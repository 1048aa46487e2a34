package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/strikesmq/strikes/integration/internal/install"
)

const composeFile = "compose.yaml"

// downTimeout bounds the removal of the containers, which no interrupt stops.
const downTimeout = time.Minute

var services = map[install.Tool]string{
	install.RabbitMQ: "rabbitmq",
	install.Redis:    "redis",
}

// composable says why the compose file cannot provide what is missing.
func composable(ctx context.Context, missing []install.Tool) error {
	for _, t := range missing {
		if services[t] == "" {
			return fmt.Errorf("and %s has no %s", composeFile, t)
		}
	}
	if _, err := os.Stat(composeFile); err != nil {
		return err
	}
	if out, err := exec.CommandContext(ctx, "docker", "compose", "ls", "--quiet").CombinedOutput(); err != nil {
		return fmt.Errorf("and Docker does not answer: %w: %s", err, firstLine(out))
	}
	return nil
}

// withCompose runs args while the missing services run in containers of their
// own project, on ports that Docker chooses, and removes both afterwards.
func withCompose(ctx context.Context, missing []install.Tool, args []string) (err error) {
	if len(args) == 0 {
		return errors.New("no command to run beside the containers")
	}
	p := project("strikes-" + strconv.Itoa(os.Getpid()))
	up := []string{"up", "--detach", "--wait"}
	for _, t := range missing {
		up = append(up, services[t])
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), downTimeout)
		defer cancel()
		if _, down := p.docker(ctx, "down", "--volumes", "--timeout", "5"); down != nil {
			fmt.Fprintln(os.Stderr, "setup: containers of project", p, "may be left:", down)
		}
	}()
	if _, err := p.docker(ctx, up...); err != nil {
		return err
	}
	env, err := p.urls(ctx, missing)
	if err != nil {
		return err
	}
	return command(ctx, args, env)
}

type project string

// docker runs one docker compose command and returns its standard output.
func (p project) docker(ctx context.Context, args ...string) (string, error) {
	all := append([]string{"compose", "--file", composeFile, "--project-name", string(p)}, args...)
	fmt.Fprintln(os.Stderr, "+ docker", strings.Join(all, " "))
	cmd := exec.CommandContext(ctx, "docker", all...)
	// Port 0 lets Docker choose: the standard ports may be in use.
	cmd.Env = append(os.Environ(), "STRIKES_AMQP_PORT=0", "STRIKES_MANAGEMENT_PORT=0", "STRIKES_REDIS_PORT=0")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("docker compose %s: %w", args[0], err)
	}
	return strings.TrimSpace(string(out)), nil
}

func (p project) urls(ctx context.Context, missing []install.Tool) ([]string, error) {
	var env []string
	add := func(format, service, port string) error {
		addr, err := p.docker(ctx, "port", service, port)
		env = append(env, fmt.Sprintf(format, addr))
		return err
	}
	var err error
	for _, t := range missing {
		switch t { //nolint:exhaustive // composable has refused every other tool
		case install.RabbitMQ:
			err = errors.Join(err,
				add("AMQP_URL=amqp://guest:guest@%s/", "rabbitmq", "5672"),
				add("STRIKES_MANAGEMENT_URL=http://guest:guest@%s", "rabbitmq", "15672"))
		case install.Redis:
			err = errors.Join(err, add("REDIS_URL=redis://%s/0", "redis", "6379"))
		}
	}
	return env, err
}

func firstLine(b []byte) string {
	line, _, _ := strings.Cut(strings.TrimSpace(string(b)), "\n")
	return line
}
