// Command setup makes sure of what the tests and the demo need, says on
// standard error what it does to get there, and then runs a command:
//
//	go run ./integration/setup -need rabbitmq,redis,cc,browser,promtool go test -race ./...
//
// The browser is Chromium, with axe-core. Where it cannot be installed, the command runs without it, except under CI=true.
// A RabbitMQ that AMQP_URL names, and a Redis that REDIS_URL names, is used as
// it is. What is missing is installed, by apt-get as root or by brew; where
// neither can be, the services of compose.yaml run for as long as the command
// does, and it is told their URLs in these variables.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/strikesmq/strikes/integration/internal/install"
)

func main() {
	need := flag.String("need", "rabbitmq,redis,cc,browser,promtool", "what the command needs, separated by commas: "+known)
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := setUp(ctx, strings.Split(*need, ","), flag.Args())
	var exit exitError
	switch {
	case err == nil:
	case errors.As(err, &exit):
		os.Exit(int(exit))
	default:
		fmt.Fprintln(os.Stderr, "setup:", err)
		os.Exit(1)
	}
}

// setUp provides what is needed and runs args, if any.
func setUp(ctx context.Context, need, args []string) error {
	tools, err := toolsFor(need, os.Getenv)
	if err != nil {
		return err
	}
	tools, err = withoutOptional(ctx, tools)
	if err != nil {
		return err
	}
	missing := install.Missing(ctx, tools...)
	err = install.Install(ctx, os.Stderr, missing...)
	if errors.Is(err, install.ErrCannotInstall) {
		if why := composable(ctx, missing); why != nil {
			return fmt.Errorf("%w (%w)", err, why)
		}
		return withCompose(ctx, missing, args)
	}
	if err != nil {
		return err
	}
	return command(ctx, args, nil)
}

// known lists what -need may name.
const known = "rabbitmq, redis, cc, browser, promtool, python, node"

// optional are the tools that the command can do without.
var optional = []install.Tool{install.Chromium, install.Axe, install.Promtool}

// withoutOptional installs the optional ones of tools and returns the others.
func withoutOptional(ctx context.Context, tools []install.Tool) ([]install.Tool, error) {
	isOptional := func(t install.Tool) bool { return slices.Contains(optional, t) }
	extra := slices.DeleteFunc(slices.Clone(tools), func(t install.Tool) bool { return !isOptional(t) })
	err := install.Install(ctx, os.Stderr, extra...)
	if err != nil && os.Getenv("CI") == "true" {
		return nil, err
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "setup: the tests that need it are skipped:", err)
	}
	return slices.DeleteFunc(slices.Clone(tools), isOptional), nil
}

// toolsFor is what has to be installed, given what the environment names.
func toolsFor(need []string, getenv func(string) string) ([]install.Tool, error) {
	var tools []install.Tool
	for _, name := range need {
		switch name {
		case "rabbitmq":
			if getenv("AMQP_URL") == "" {
				tools = append(tools, install.RabbitMQ)
			}
		case "redis":
			if getenv("REDIS_URL") == "" {
				tools = append(tools, install.Redis)
			}
		case "cc":
			tools = append(tools, install.CCompiler)
		case "browser":
			tools = append(tools, install.Chromium, install.Axe)
		case "python":
			tools = append(tools, install.Python)
		case "promtool":
			tools = append(tools, install.Promtool)
		case "node":
			tools = append(tools, install.Node)
		default:
			return nil, fmt.Errorf("-need %q: want some of %s", name, known)
		}
	}
	return tools, nil
}

// exitError is the status that the command ended with; it has said why itself.
type exitError int

func (e exitError) Error() string { return "exit status " + strconv.Itoa(int(e)) }

// command runs args with env added. An interrupt from the terminal reaches it
// without our help and is waited out here; SIGTERM is passed on.
func command(ctx context.Context, args, env []string) error {
	if len(args) == 0 {
		return nil
	}
	ctx, stop := signal.NotifyContext(context.WithoutCancel(ctx), syscall.SIGTERM)
	defer stop()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() > 0 {
		return exitError(exit.ExitCode())
	}
	return err
}
