package integration

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/strikesmq/strikes/internal/inbox"
	"github.com/strikesmq/strikes/internal/servertest"
	"github.com/strikesmq/strikes/topology"
)

var goBlock = regexp.MustCompile("(?s)```go\n(.*?)```")

// TestGoBlocksInAModuleOfTheirOwn builds, runs and tests the Go of the documents as a user's module would.
func TestGoBlocksInAModuleOfTheirOwn(t *testing.T) {
	servertest.Long(t)
	t.Parallel()
	text := read(t, "../docs/library.md") + read(t, "../README.md")
	var blocks []string
	queue := declared(t, topology.Quorum)
	for _, b := range goBlock.FindAllStringSubmatch(text, -1) {
		if n := strings.Count(b[1], "\n"); n >= 20 {
			t.Errorf("a block of %d lines:\n%s", n, b[1])
		}
		blocks = append(blocks, strings.NewReplacer(`"orders"`, `"`+queue+`"`, "http://localhost:15672",
			managementURL(t)).Replace(b[1]))
	}
	if len(blocks) != 4 {
		t.Fatalf("%d blocks of Go, want publish, a test, a store and consume", len(blocks))
	}
	dir := userModule(t, map[string]string{
		"main.go":      read(t, "testdata/readme/main.go.txt") + blocks[0] + blocks[3],
		"main_test.go": read(t, "testdata/readme/main_test.go.txt") + blocks[1],
	})

	t.Run("test", func(t *testing.T) {
		cmd := servertest.Go(t.Context(), "test", ".")
		cmd.Dir, cmd.Env = dir, userEnv()
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	})
	t.Run("run", func(t *testing.T) {
		build := servertest.Go(t.Context(), "build", "-o", "orders", ".")
		build.Dir, build.Env = dir, userEnv()
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "orders"))
		cmd.Env = append(os.Environ(), "AMQP_URL="+brokerURL(t), "REDIS_URL="+redisURL(t))
		var warned strings.Builder
		cmd.Stderr = io.MultiWriter(os.Stderr, &warned)
		out, err := cmd.StdoutPipe()
		need(t, err)
		need(t, cmd.Start())
		line, err := bufio.NewReader(out).ReadString('\n')
		if line != "booked 17\n" {
			t.Errorf("it printed %q, %v", line, err)
		}
		if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
			t.Error(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("it ended with %v", err)
		}
		if n := queueDepth(t, queue); n != 0 || strings.Contains(warned.String(), "topology: ") {
			t.Errorf("%d messages left; stderr: %s", n, &warned)
		}
	})
}

// TestFragmentsCompile compiles the Go of documents that show a part of a program, each in a function of
// testdata/fragments that declares the names that it uses.
func TestFragmentsCompile(t *testing.T) {
	t.Parallel()
	for _, document := range []string{"console", "effects", "library", "telemetry"} {
		var block string
		for _, b := range goBlock.FindAllStringSubmatch(read(t, "../docs/"+document+".md"), -1) {
			if !strings.Contains("\n"+b[1], "\nfunc ") { // those are whole, and TestGoBlocksInAModuleOfTheirOwn has them
				block += b[1]
			}
		}
		dir := t.TempDir()
		file, overlay := filepath.Join(dir, "fragment.go"), filepath.Join(dir, "overlay.json")
		write(t, file, fmt.Sprintf(read(t, "testdata/fragments/"+document+".go.txt"), block))
		replace, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(absolute(t, "."), "fragment",
			"fragment.go"): file}})
		need(t, err)
		write(t, overlay, string(replace))
		build := servertest.Go(t.Context(), "build", "-overlay", overlay, "./fragment")
		if out, err := build.CombinedOutput(); err != nil {
			t.Errorf("docs/%s.md: %v\n%s", document, err, out)
		}
	}
}

// TestSchemaOfTheInbox: a program in another language makes the table that Go's have.
func TestSchemaOfTheInbox(t *testing.T) {
	t.Parallel()
	if !strings.Contains(read(t, "../docs/effects.md"), "```sql\n"+inbox.PostgreSQLSchema+"```\n") {
		t.Errorf("docs/effects.md does not show the schema:\n%s", inbox.PostgreSQLSchema)
	}
}

func write(t *testing.T, name, text string) {
	t.Helper()
	need(t, os.WriteFile(name, []byte(text), 0o600))
}

func absolute(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(name)
	need(t, err)
	return path
}

// userModule is a module that finds this one by a replace directive, and everything else in the module cache.
func userModule(t *testing.T, files map[string]string) string {
	t.Helper()
	sums, err := os.ReadFile("../go.sum")
	need(t, err)
	files["go.sum"] = string(sums)
	files["go.mod"] = "module example.com/orders\n\ngo 1.26\n\nrequire github.com/strikesmq/strikes v0.0.0\n\nreplace " +
		"github.com/strikesmq/strikes => " + absolute(t, "..") + "\n"
	dir := t.TempDir()
	for name, text := range files {
		write(t, filepath.Join(dir, name), text)
	}
	return dir
}

func userEnv() []string {
	return append(os.Environ(), "GOFLAGS="+os.Getenv("GOFLAGS")+" -mod=mod", "GOWORK=off")
}
