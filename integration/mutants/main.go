// Command mutants shows that the checks can fail: it builds broken variants of
// strikes from patched copies of its sources and runs, against each, the check
// that has to catch it.
//
//	go run ./integration/mutants
//
// The sources stay as they are: the copies are put in their place for one build
// by -overlay. It prints a line for each mutant, and exits with 1 if one
// survives, if a check fails without a mutant, or if the code that a mutant is
// to break is not there any more. No server is needed.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	survivors, err := run(ctx, os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
	}
	if err != nil || survivors > 0 {
		os.Exit(1)
	}
}

// run tries every mutant, and returns how many were not caught.
func run(ctx context.Context, out io.Writer) (survivors int, err error) {
	root, err := moduleRoot(ctx)
	if err != nil {
		return 0, err
	}
	dir, err := os.MkdirTemp("", "mutants-")
	if err != nil {
		return 0, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	b := builder{root: root, dir: dir}
	if err := b.sound(ctx); err != nil {
		return 0, err
	}
	const row = "%-68s  %-28s  %s\n"
	fmt.Fprintf(out, row, "MUTANT", "CAUGHT BY", "RESULT")
	for i, m := range mutants {
		evidence, err := b.try(ctx, i, m)
		if err != nil {
			return survivors, fmt.Errorf("%q: %w", m.name, err)
		}
		result := "ok"
		if evidence == "" {
			result = "SURVIVED"
			survivors++
		}
		fmt.Fprintf(out, row, m.name, m.by.name, strings.TrimSpace(result+" "+evidence))
	}
	return survivors, nil
}

func moduleRoot(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOMOD: %w", err)
	}
	return filepath.Dir(strings.TrimSpace(string(out))), nil
}
