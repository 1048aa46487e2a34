package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// builder builds checks, with or without a mutant, and runs them.
type builder struct {
	root string // of the module
	dir  string // for what is built
}

// sound runs every check on the code as it is: one that fails anyway catches nothing.
func (b builder) sound(ctx context.Context) error {
	checked := map[string]bool{}
	for _, m := range mutants {
		if checked[m.by.name] {
			continue
		}
		checked[m.by.name] = true
		bin := filepath.Join(b.dir, fmt.Sprintf("sound-%d.test", len(checked)))
		if err := b.build(ctx, bin, m.by.pkg, ""); err != nil {
			return err
		}
		if out, passed, err := b.check(ctx, bin, m.by); err != nil || !passed {
			return errors.Join(fmt.Errorf("%s fails without a mutant:\n%s", m.by.name, tail(out)), err)
		}
	}
	return nil
}

// try returns what the check of a mutant found, or nothing if it found nothing.
func (b builder) try(ctx context.Context, i int, m mutant) (evidence string, err error) {
	overlay, err := b.overlay(i, m)
	if err != nil {
		return "", err
	}
	bin := filepath.Join(b.dir, fmt.Sprintf("mutant-%d.test", i))
	if err := b.build(ctx, bin, m.by.pkg, overlay); err != nil {
		return "", err
	}
	out, passed, err := b.check(ctx, bin, m.by)
	if err != nil || passed {
		return "", err
	}
	for line := range strings.Lines(out) {
		if strings.Contains(line, m.shows) {
			return fmt.Sprintf("(%s)", m.shows), nil
		}
	}
	return "", fmt.Errorf("%s failed, but not with %q:\n%s", m.by.name, m.shows, tail(out))
}

// overlay writes the patched copies, and the file that tells the go command of them.
func (b builder) overlay(i int, m mutant) (string, error) {
	replace := map[string]string{}
	for n, e := range m.edits {
		source := filepath.Join(b.root, filepath.FromSlash(e.file))
		from := source
		if replace[source] != "" {
			from = replace[source]
		}
		text, err := os.ReadFile(from) //nolint:gosec // a source of this module
		if err != nil {
			return "", err
		}
		if found := strings.Count(string(text), e.old); found != 1 {
			return "", fmt.Errorf("%s has %d times what is to be broken, not once:\n%s", e.file, found, e.old)
		}
		patched := filepath.Join(b.dir, fmt.Sprintf("mutant-%d-%d-%s", i, n, filepath.Base(e.file)))
		if err := os.WriteFile(patched, []byte(strings.Replace(string(text), e.old, e.broken, 1)), 0o600); err != nil { //nolint:gosec // in a directory of its own
			return "", err
		}
		replace[source] = patched
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	path := filepath.Join(b.dir, fmt.Sprintf("mutant-%d.json", i))
	return path, os.WriteFile(path, text, 0o600)
}

func (b builder) build(ctx context.Context, bin, pkg, overlay string) error {
	cmd := exec.CommandContext(ctx, "go", "test", "-c", "-overlay", overlay, "-o", bin, "./"+pkg) //nolint:gosec // all from the table of mutants
	cmd.Dir = b.root
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("it does not build: %w\n%s", err, out)
	}
	return nil
}

// check runs a check that was built, and reports whether it passed.
func (b builder) check(ctx context.Context, bin string, c check) (out string, passed bool, err error) {
	cmd := exec.CommandContext(ctx, bin, append([]string{"-test.run", c.run, "-test.timeout", "10m"}, c.args...)...) //nolint:gosec // as above
	cmd.Dir = filepath.Join(b.root, c.pkg)
	text, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Exited() {
		return string(text), false, nil
	}
	return string(text), err == nil, err
}

// tail is the end of a long output.
func tail(out string) string {
	const most = 4000
	if len(out) > most {
		return "…" + out[len(out)-most:]
	}
	return out
}
