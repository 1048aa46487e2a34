package integration

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
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

const (
	library = "github.com/strikesmq/strikes"
	version = "v0.1.0"
)

// tools are modules of the command and of the tests. No program that imports the library may get them.
var tools = []string{
	"github.com/creack/pty", "github.com/go-sql-driver/mysql", "github.com/jackc/pgx/v5", "github.com/lib/pq",
	"github.com/prometheus/client_golang",
	"github.com/rivo/uniseg", "github.com/rogpeppe/go-internal",
	"github.com/spf13/cobra", "github.com/spf13/pflag", "github.com/urfave/cli/v3", "golang.org/x/term",
	"golang.org/x/tools",
}

// TestReleasedModules releases a copy of the repository as CONTRIBUTING.md says. Then it installs the command and
// imports the library as a user does, with an empty module cache.
func TestReleasedModules(t *testing.T) {
	servertest.Long(t)
	t.Parallel()
	origin := user{dir: t.TempDir()}
	for _, name := range strings.Split(strings.TrimSuffix(user{dir: ".."}.run(t, "git", "ls-files", "-z"), "\x00"),
		"\x00") {
		if content, err := os.ReadFile(filepath.Join("..", name)); err == nil { // else it is deleted, and not committed
			need(t, os.MkdirAll(filepath.Join(origin.dir, filepath.Dir(name)), 0o750))
			need(t, os.WriteFile(filepath.Join(origin.dir, name), content, 0o600))
		}
	}
	release := newUser(t, origin.dir)
	release.dir = origin.dir
	release.run(t, "git", "init", "--quiet")
	commitAs(t, release, version)
	release.run(t, "make", "release", "VERSION="+version)
	commitAs(t, release, "store/postgres/"+version)
	release.run(t, "git", "tag", "store/mysql/"+version)
	release.run(t, "make", "release-command", "VERSION="+version)
	commitAs(t, release, "cmd/strikes/"+version)
	importer := newUser(t, origin.dir)
	importer.dir = t.TempDir()

	t.Run("go install", func(t *testing.T) {
		importer.run(t, "go", "install", "-trimpath", library+"/cmd/strikes@"+version)
		if got := importer.run(t, filepath.Join(importer.bin, "strikes"), "version"); !strings.HasPrefix(got,
			"strikes "+version+" ") {
			t.Errorf("strikes version: %s", got)
		}
	})
	t.Run("go get", func(t *testing.T) {
		importer.run(t, "go", "mod", "init", "example.com/importer")
		write(t, filepath.Join(importer.dir, "main.go"), read(t, "testdata/readme/importer.go.txt"))
		importer.run(t, "go", "get", library+"@"+version)
		importer.run(t, "go", "mod", "tidy")
		importer.run(t, "go", "build", "-trimpath", ".")
		list := strings.Fields(importer.run(t, "go", "list", "-m", "-f", "{{.Path}}", "all"))
		for _, m := range list {
			if slices.Contains(tools, m) || strings.HasPrefix(m, library+"/") {
				t.Errorf("the importer gets %s", m)
			}
		}
	})
}

func commitAs(t *testing.T, u user, tag string) {
	t.Helper()
	u.run(t, "git", "add", "--all", "--force")
	u.run(t, "git", "-c", "user.name=test", "-c", "user.email=test@example.com", "commit", "--quiet", "--message", tag)
	u.run(t, "git", "tag", tag)
}

// A user has a module cache and programs of their own, and works in dir.
type user struct {
	bin, dir string
	env      []string
}

// newUser returns a user who gets the library from the repository in origin. Other modules come from this machine's
// module cache, then from its proxies.
func newUser(t *testing.T, origin string) user {
	t.Helper()
	cache, others, _ := strings.Cut(strings.TrimSpace(user{}.run(t, "go", "env", "GOMODCACHE", "GOPROXY")), "\n")
	u := user{bin: t.TempDir()}
	u.env = append(os.Environ(), "GOBIN="+u.bin, "GOMODCACHE="+t.TempDir(), "GOWORK=off", "GOTOOLCHAIN=local",
		"GOFLAGS=-mod=mod -modcacherw -buildvcs=false", "GOPRIVATE="+library,
		"GOPROXY=file://"+filepath.Join(cache, "cache", "download")+","+others,
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=url."+origin+".insteadOf", "GIT_CONFIG_VALUE_0=https://"+library)
	return u
}

func (u user) run(t *testing.T, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), name, args...)
	cmd.Dir, cmd.Env = u.dir, u.env
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s%s", name, args, err, out, stderr.String())
	}
	return string(out)
}
