package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/semver"
	"golang.org/x/mod/sumdb/dirhash"
	"golang.org/x/mod/zip"
)

// The released modules. The library comes first, because the go.sum of each dependent holds its hash.
const (
	library = "github.com/strikesmq/strikes"
	command = library + "/cmd/strikes"
)

// dependents are the modules that require the library.
var dependents = []string{command, library + "/plugin/otelstrikes", library + "/plugin/promstrikes"}

// A release is a copy of the repository in which the dependents require the library's version.
type release struct {
	version string
	tree    string // the copy's directory
	zips    map[string][]byte
}

// open copies the repository at root to a temporary directory, and makes the zips of the modules from the copy.
func open(root, version string) (_ *release, err error) {
	if semver.Canonical(version) != version {
		return nil, fmt.Errorf("the version must be like v0.1.0, got %q", version)
	}
	tree, err := os.MkdirTemp("", "strikes-release-")
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(tree))
		}
	}()
	if err := copyTracked(root, tree); err != nil {
		return nil, err
	}
	r := &release{version: version, tree: tree, zips: map[string][]byte{}}
	if err := r.zip(library); err != nil {
		return nil, err
	}
	for _, path := range dependents {
		if err := errors.Join(r.requireLibrary(path), r.zip(path)); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// copyTracked copies the files that git tracks or would add; a build's products stay behind.
func copyTracked(from, to string) error {
	cmd := exec.CommandContext(context.Background(), "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	cmd.Dir = from
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("git ls-files: %w", err)
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		text, err := os.ReadFile(filepath.Join(from, name)) //nolint:gosec // what git tracks
		if errors.Is(err, fs.ErrNotExist) {                 // deleted, and not committed yet
			continue
		}
		if err != nil {
			return err
		}
		if err := write(filepath.Join(to, name), text); err != nil {
			return err
		}
	}
	return nil
}

func write(name string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil { //nolint:gosec // a proxy's files are for all to read
		return err
	}
	return os.WriteFile(name, text, 0o644) //nolint:gosec // a proxy's files are for all to read
}

func (r *release) dir(path string) string {
	return filepath.Join(r.tree, filepath.FromSlash(strings.TrimPrefix(path, library)))
}

func (r *release) zip(path string) error {
	var buf bytes.Buffer
	err := zip.CreateFromDir(&buf, module.Version{Path: path, Version: r.version}, r.dir(path))
	r.zips[path] = buf.Bytes()
	return err
}

// requireLibrary makes a dependent require the library's version in place of its directory.
func (r *release) requireLibrary(path string) error {
	name := filepath.Join(r.dir(path), "go.mod")
	text, err := os.ReadFile(name) //nolint:gosec // a file of the tree
	if err != nil {
		return err
	}
	mod, err := modfile.Parse(name, text, nil)
	if err != nil {
		return err
	}
	if err := errors.Join(mod.AddRequire(library, r.version), mod.DropReplace(library, "")); err != nil {
		return err
	}
	mod.Cleanup()
	if text, err = mod.Format(); err != nil {
		return err
	}
	sums, err := r.librarySums()
	if err != nil {
		return err
	}
	sumFile := filepath.Join(r.dir(path), "go.sum")
	old, err := os.ReadFile(sumFile) //nolint:gosec // a file of the tree
	if err != nil {
		return err
	}
	return errors.Join(write(name, text), write(sumFile, append(old, sums...)))
}

// librarySums is what go.sum says about the library.
func (r *release) librarySums() (string, error) {
	zipFile := filepath.Join(r.tree, ".library.zip")
	if err := write(zipFile, r.zips[library]); err != nil {
		return "", err
	}
	defer func() { _ = os.Remove(zipFile) }() // the tree is removed with it
	all, err := dirhash.HashZip(zipFile, dirhash.Hash1)
	if err != nil {
		return "", err
	}
	mod, err := dirhash.Hash1([]string{"go.mod"}, func(string) (io.ReadCloser, error) { return os.Open(filepath.Join(r.dir(library), "go.mod")) })
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s %s %s\n%s %s/go.mod %s\n", library, r.version, all, library, r.version, mod), nil
}

// serve writes the modules to dir as a module proxy serves them.
func (r *release) serve(dir string) error {
	info, err := json.Marshal(struct {
		Version string    `json:"Version"`
		Time    time.Time `json:"Time"`
	}{r.version, time.Now().UTC()})
	if err != nil {
		return err
	}
	for path, archive := range r.zips {
		mod, err := os.ReadFile(filepath.Join(r.dir(path), "go.mod"))
		if err != nil {
			return err
		}
		at := filepath.Join(dir, filepath.FromSlash(path), "@v")
		err = errors.Join(
			write(filepath.Join(at, "list"), []byte(r.version+"\n")),
			write(filepath.Join(at, r.version+".info"), info),
			write(filepath.Join(at, r.version+".mod"), mod),
			write(filepath.Join(at, r.version+".zip"), archive))
		if err != nil {
			return err
		}
	}
	return nil
}

// copyBack writes the go.mod and go.sum of the dependents to the repository at root.
func (r *release) copyBack(root string) error {
	for _, path := range dependents {
		for _, name := range []string{"go.mod", "go.sum"} {
			text, err := os.ReadFile(filepath.Join(r.dir(path), name)) //nolint:gosec // a file of the tree
			if err != nil {
				return err
			}
			if err := write(filepath.Join(root, filepath.FromSlash(strings.TrimPrefix(path, library)), name), text); err != nil {
				return err
			}
		}
	}
	return nil
}
