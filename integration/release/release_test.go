package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const version = "v0.1.0"

// tools are modules of the command and of the tests. No program that imports the library may get them.
var tools = []string{
	"github.com/creack/pty", "github.com/prometheus/client_golang", "github.com/rivo/uniseg",
	"github.com/rogpeppe/go-internal", "github.com/schollz/progressbar/v3", "github.com/spf13/cobra", "github.com/spf13/pflag",
	"github.com/urfave/cli/v3", "golang.org/x/mod", "golang.org/x/term", "golang.org/x/tools",
}

// TestReleasedModules installs the command and imports the library as a user does: from a proxy, with an empty module cache.
func TestReleasedModules(t *testing.T) {
	proxy := t.TempDir()
	r, err := open("../..", version)
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(r.tree)
	if err := r.serve(proxy); err != nil {
		t.Fatal(err)
	}
	user := newUser(t, proxy)

	t.Run("go install", func(t *testing.T) {
		user.in(t.TempDir()).run(t, "go", "install", "-trimpath", command+"@"+version)
		if got := user.run(t, filepath.Join(user.bin, "strikes"), "version"); !strings.HasPrefix(got, "strikes "+version+" ") {
			t.Errorf("strikes version: %s", got)
		}
	})
	t.Run("go get", func(t *testing.T) {
		importer := user.in(t.TempDir())
		importer.run(t, "go", "mod", "init", "example.com/importer")
		if err := os.WriteFile(filepath.Join(importer.dir, "main.go"), []byte(importing), 0o600); err != nil {
			t.Fatal(err)
		}
		importer.run(t, "go", "get", library+"@"+version)
		importer.run(t, "go", "mod", "tidy")
		importer.run(t, "go", "build", "-trimpath", ".")
		graph, list := importer.run(t, "go", "mod", "graph"), strings.Fields(importer.run(t, "go", "list", "-m", "-f", "{{.Path}}", "all"))
		t.Logf("go mod graph | wc -l: %d\ngo list -m all: %d\n%s", strings.Count(graph, "\n"), len(list), strings.Join(list, "\n"))
		for _, m := range list {
			if slices.Contains(tools, m) || strings.HasPrefix(m, library+"/") {
				t.Errorf("the importer gets %s", m)
			}
		}
	})
}

const importing = `package main

import (
	_ "github.com/strikesmq/strikes/consumer"
	_ "github.com/strikesmq/strikes/counter"
	_ "github.com/strikesmq/strikes/deadletter"
	_ "github.com/strikesmq/strikes/publisher"
	_ "github.com/strikesmq/strikes/topology"
)

func main() {}
`

// A user has a module cache and programs of their own, and works in dir.
type user struct {
	bin, dir string
	env      []string
}

// newUser is a user whose modules come from proxy, then from this machine's module cache, then from its proxies.
func newUser(t *testing.T, proxy string) user {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "env", "GOMODCACHE", "GOPROXY").Output()
	if err != nil {
		t.Fatal(err)
	}
	cache, others, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	u := user{bin: t.TempDir()}
	u.env = append(os.Environ(), "GOBIN="+u.bin, "GOMODCACHE="+t.TempDir(), "GOWORK=off", "GOFLAGS=-mod=mod -modcacherw -buildvcs=false",
		"GOPROXY=file://"+proxy+",file://"+filepath.Join(cache, "cache", "download")+","+others, "GONOSUMDB="+library+"*", "GOTOOLCHAIN=local")
	return u
}

func (u user) in(dir string) user {
	u.dir = dir
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
		t.Fatalf("%s %q: %v\n%s", name, args, err, stderr.String())
	}
	return string(out)
}
