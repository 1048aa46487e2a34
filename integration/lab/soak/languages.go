package soak

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/strikesmq/strikes/integration/internal/fleet"
)

// inGo is the language of runWorker. A worker in any other language does the same. It reads a workerSpec from the
// environment variable STRIKES_WORKER, consumes, and behaves as the bodies of the messages ask. It appends each event
// to the history before it goes on. It ends when its standard input ends, and stops at SIGTERM.
const inGo = "go"

// programs are the commands of workers in other languages, in the repository.
var programs = map[string]func(string) ([]string, error){
	"python": func(root string) ([]string, error) {
		python, err := exec.LookPath(cmp.Or(os.Getenv("PYTHON"), "/usr/bin/python3"))
		return []string{python, filepath.Join(root, "clients/python/tests/soak_worker.py")}, err
	},
	"node": func(root string) ([]string, error) {
		node, err := exec.LookPath("node")
		return []string{node, filepath.Join(root, "clients/node/test/soak-worker.js")}, err
	},
}

// programOf returns the command of a worker in a language; none: this program itself.
func programOf(ctx context.Context, language string) ([]string, error) {
	if language == inGo || language == inHTTP {
		return nil, nil
	}
	root, err := fleet.Repository(ctx)
	if err != nil {
		return nil, err
	}
	command, err := programs[language](root)
	if err != nil {
		return nil, fmt.Errorf("a worker in %s: %w", language, err)
	}
	return command, nil
}
