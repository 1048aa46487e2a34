package fleet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Repository returns the directory of the project.
func Repository(ctx context.Context) (string, error) {
	work, err := exec.CommandContext(ctx, "go", "env", "GOWORK").Output()
	if err != nil {
		return "", fmt.Errorf("finding the repository: %w", err)
	}
	return filepath.Dir(strings.TrimSpace(string(work))), nil
}

// BuildStrikes builds the command in a new directory, which the caller removes, and returns its path.
func BuildStrikes(ctx context.Context) (binary string, err error) {
	root, err := Repository(ctx)
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp("", "strikes-binary-")
	if err != nil {
		return "", err
	}
	binary = filepath.Join(dir, "strikes")
	build := exec.CommandContext(ctx, "go", "build", "-o", binary, "./cmd/strikes") //nolint:gosec // a directory made here
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		return "", errors.Join(fmt.Errorf("building strikes: %w\n%s", err, out), os.RemoveAll(dir))
	}
	return binary, nil
}
