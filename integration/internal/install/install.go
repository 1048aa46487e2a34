// Package install installs what the tests and the demo need: RabbitMQ, Redis, a C compiler, a browser and axe-core.
package install

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/strikesmq/strikes/internal/servers"
)

// A Tool is what Install can install.
type Tool string

// The tools that there are.
const (
	RabbitMQ  Tool = "RabbitMQ"
	Redis     Tool = "Redis"
	CCompiler Tool = "C compiler" // for the race detector
	Chromium  Tool = "Chromium"
	Axe       Tool = "axe-core" // finds faults of accessibility in pages; npm downloads it
	Node      Tool = "Node.js"  // with npm, for clients/node
	Python    Tool = "Python"   // with the modules that the tests of clients/python import
	Promtool  Tool = "promtool" // tests alert rules; unpacked from Debian's package, never installed
)

// ErrCannotInstall is returned by Install where there is no package manager
// that it may use. Nothing was changed: do what the error's text says.
var ErrCannotInstall = errors.New("install: cannot install")

var packages = map[Tool]struct {
	apt, brew []string
	service   string // that systemd would start; empty: none
}{
	RabbitMQ:  {apt: []string{"rabbitmq-server"}, brew: []string{"rabbitmq"}, service: "rabbitmq-server.service"},
	Redis:     {apt: []string{"redis-server"}, brew: []string{"redis"}, service: "redis-server.service"},
	CCompiler: {apt: []string{"gcc", "libc6-dev"}, brew: []string{"gcc"}},
	Chromium:  {apt: []string{"chromium-headless-shell"}, brew: []string{"google-chrome"}},
	Axe:       {apt: []string{"npm"}, brew: []string{"node"}},
	Python:    {apt: []string{"python3", "python3-redis", "python3-pika", "python3-aio-pika", "python3-pytest"}, brew: []string{"python"}},
	Promtool:  {brew: []string{"prometheus"}},
	Node:      {apt: []string{"nodejs", "npm"}, brew: []string{"node"}},
}

// Missing returns those of tools that are not installed.
func Missing(ctx context.Context, tools ...Tool) []Tool {
	return slices.DeleteFunc(slices.Clone(tools), func(t Tool) bool { return t.installed(ctx) })
}

func (t Tool) installed(ctx context.Context) bool {
	var err error
	switch t {
	case RabbitMQ:
		_, err = servers.FindRabbitMQ()
	case Redis:
		_, err = servers.FindRedis()
	case CCompiler:
		err = compileC(ctx)
	case Chromium:
		_, err = FindChromium()
	case Axe:
		_, err = FindAxe()
	case Python:
		_, err = FindPython(ctx)
	case Promtool:
		_, err = FindPromtool()
	case Node:
		err = findNode(ctx)
	}
	return err == nil
}

// compileC asks for what cgo asks for: a compiler may be there without the C
// library's headers.
func compileC(ctx context.Context) error {
	cc := os.Getenv("CC")
	if cc == "" {
		cc = "gcc"
		if !onPath(cc) {
			cc = "clang"
		}
	}
	cmd := exec.CommandContext(ctx, cc, "-x", "c", "-fsyntax-only", "-")
	cmd.Stdin = strings.NewReader("#include <stdlib.h>\n#include <pthread.h>\n")
	return cmd.Run()
}

// Install installs those of tools that are missing, with apt-get as root or
// with Homebrew, and writes to out what it does. The packages' own services
// are not started, nor enabled. It needs the network and takes a minute or two.
func Install(ctx context.Context, out io.Writer, tools ...Tool) error {
	missing := Missing(ctx, tools...)
	if len(missing) == 0 {
		return nil
	}
	if err := installPackages(ctx, out, missing); err != nil {
		return err
	}
	if slices.Contains(missing, Promtool) && onPath("apt-get") {
		if err := unpackPromtool(ctx, out); err != nil {
			return fmt.Errorf("unpacking %s: %w", Promtool, err)
		}
	}
	if slices.Contains(missing, Axe) {
		if err := fetchAxe(ctx, out); err != nil {
			return fmt.Errorf("installing %s: %w", Axe, err)
		}
	}
	if missing = Missing(ctx, missing...); len(missing) > 0 {
		return fmt.Errorf("%s is still not found after it was installed", names(missing))
	}
	return nil
}

// installPackages installs the packages of tools; axe-core needs one only where there is no npm.
func installPackages(ctx context.Context, out io.Writer, tools []Tool) error {
	tools = slices.DeleteFunc(slices.Clone(tools), func(t Tool) bool { return t == Axe && onPath("npm") || t == Promtool && onPath("apt-get") })
	if len(tools) == 0 {
		return nil
	}
	install, err := packageManager(os.Geteuid(), tools)
	if err != nil {
		return err
	}
	if err := install(ctx, out, tools); err != nil {
		return fmt.Errorf("installing %s: %w", names(tools), err)
	}
	return nil
}

type installer func(context.Context, io.Writer, []Tool) error

func packageManager(uid int, missing []Tool) (installer, error) {
	if onPath("apt-get") {
		if uid == 0 {
			return apt{policy: "/usr/sbin/policy-rc.d"}.install, nil
		}
		return nil, fmt.Errorf("%w %s: not root; sudo apt-get install %s%s",
			ErrCannotInstall, names(missing), strings.Join(aptPackages(missing), " "), orElse)
	}
	if onPath("brew") {
		return brewInstall, nil
	}
	return nil, fmt.Errorf("%w %s: neither apt-get nor brew is here; install it by hand%s", ErrCannotInstall, names(missing), orElse)
}

func onPath(name string) bool {
	_, err := exec.LookPath(name)
	return err == nil
}

const orElse = ", or run docker compose up -d and set AMQP_URL and REDIS_URL to what is there"

func brewInstall(ctx context.Context, out io.Writer, tools []Tool) error {
	args := []string{"install", "--quiet"}
	for _, t := range tools {
		args = append(args, packages[t].brew...)
	}
	return run(ctx, out, "brew", args...)
}

// run says what it runs before it does; what the command prints is shown only
// if it fails.
func run(ctx context.Context, out io.Writer, name string, args ...string) error {
	fmt.Fprintln(out, "+", name, strings.Join(args, " "))
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	if printed, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, printed[max(0, len(printed)-4096):])
	}
	return nil
}

func names(tools []Tool) string {
	s := make([]string, len(tools))
	for i, t := range tools {
		s[i] = string(t)
	}
	return strings.Join(s, ", ")
}
