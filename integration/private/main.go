// Command private runs a command with a private RabbitMQ and a private Redis:
//
//	go run ./integration/private -dir clients/node -- npm test
//
// The command finds their URLs in AMQP_URL and REDIS_URL. A server that one of these names already is used as it is. STRIKES is the
// path of the strikes command, built from this repository.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/strikesmq/strikes/internal/servers"
)

func main() {
	dir := flag.String("dir", ".", "where the command runs")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, *dir, flag.Args())
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit) && exit.ExitCode() > 0:
		os.Exit(exit.ExitCode())
	case err != nil:
		fmt.Fprintln(os.Stderr, "private:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, dir string, args []string) (err error) {
	if len(args) == 0 {
		return errors.New("no command given; put it after --")
	}
	work, err := os.MkdirTemp("", "strikes-private-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	env := append(os.Environ(), "STRIKES="+filepath.Join(work, "strikes"))
	build := exec.CommandContext(ctx, "go", "build", "-o", filepath.Join(work, "strikes"), "./cmd/strikes")
	if printed, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("building the command: %w: %s", err, printed)
	}
	if os.Getenv("REDIS_URL") == "" {
		store, err := servers.StartRedis(ctx, servers.RedisOptions{})
		if err != nil {
			return err
		}
		defer func() { _ = store.Close() }()
		env = append(env, "REDIS_URL="+store.URL)
	}
	if os.Getenv("AMQP_URL") == "" {
		broker, err := servers.StartRabbitMQ(ctx, servers.RabbitMQOptions{})
		if err != nil {
			return err
		}
		defer func() { _ = broker.Close() }()
		env = append(env, "AMQP_URL="+broker.URL)
	}
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.Dir, cmd.Env = dir, env
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	return cmd.Run()
}
