// Package clients runs the tests of clients/node and clients/python on real servers.
package clients

import (
	"cmp"
	"os"
	"os/exec"
	"testing"

	"github.com/strikesmq/strikes/internal/servertest"
)

func TestMain(m *testing.M) { os.Exit(servertest.Run(m)) }

var python = cmp.Or(os.Getenv("PYTHON"), "/usr/bin/python3")

func TestNode(t *testing.T) {
	servertest.Long(t)
	run(t, "../../clients/node", "npm", "test", "--silent")
}

func TestPython(t *testing.T) {
	servertest.Long(t)
	run(t, "../../clients/python", python, "-m", "pytest")
}

// BenchmarkPython compares the speed of clients/python with that of bare loops.
func BenchmarkPython(b *testing.B) {
	for range b.N {
		run(b, "../../clients/python", python, "bench.py")
	}
}

// run runs a command in dir. It finds the servers in AMQP_URL, REDIS_URL and DATABASE_URL, and the strikes command in
// STRIKES.
func run(t testing.TB, dir string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), "STRIKES="+servertest.Program(t, "cmd/strikes"), "PYTHONDONTWRITEBYTECODE=1",
		"AMQP_URL="+servertest.BrokerURL(t), "REDIS_URL="+servertest.StoreURL(t),
		"DATABASE_URL=postgres://postgres@"+servertest.PostgreSQL(t)+"/postgres?sslmode=disable")
	if err := cmd.Run(); err != nil {
		t.Fatalf("%q: %v", args, err)
	}
}
