package install

import (
	"context"
	"fmt"
	"os/exec"
)

// pythonModules are what the tests of clients/python import.
const pythonModules = "import redis, pika, aio_pika, pytest"

// FindPython returns the path of a Python that has the modules which the tests of clients/python need. Debian's own comes first: the
// packages of apt are for it alone.
func FindPython(ctx context.Context) (string, error) {
	for _, name := range []string{"/usr/bin/python3", "python3"} {
		path, err := exec.LookPath(name)
		if err == nil && exec.CommandContext(ctx, path, "-c", pythonModules).Run() == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("no Python 3 with redis, pika, aio_pika and pytest is installed: %w", exec.ErrNotFound)
}
