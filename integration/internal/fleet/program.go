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

const module = "github.com/strikesmq/strikes"

// Repository returns the directory of the project.
func Repository(ctx context.Context) (string, error) {
	dir, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		return "", fmt.Errorf("finding the repository: %w", err)
	}
	return strings.TrimSpace(string(dir)), nil
}

// Binary is the command strikes, built when it is needed. The zero value is not built.
type Binary struct{ dir string }

// Strikes builds the command, once, and returns its path. It is not safe for use by several goroutines.
func (b *Binary) Strikes(ctx context.Context) (path string, err error) {
	if b.dir == "" {
		if b.dir, err = os.MkdirTemp("", "strikes-binary-"); err != nil {
			return "", err
		}
		build := exec.CommandContext(ctx, "go", "build", "-o", b.dir, module+"/cmd/strikes") //nolint:gosec // made here
		if out, err := build.CombinedOutput(); err != nil {
			return "", errors.Join(fmt.Errorf("building strikes: %w\n%s", err, out), b.Remove())
		}
	}
	return filepath.Join(b.dir, "strikes"), nil
}

// Remove removes the command, if it was built.
func (b *Binary) Remove() error { return os.RemoveAll(b.dir) }
