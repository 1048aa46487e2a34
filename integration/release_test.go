package integration

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/strikesmq/strikes/internal/servertest"
)

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
