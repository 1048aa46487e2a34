package soak

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/strikesmq/strikes/integration/internal/fleet"
)

// inGo is the language of runWorker, which any other worker does the like of: it reads a workerSpec from the
// environment variable STRIKES_WORKER, consumes, does what the bodies of the messages say, and appends each event to
// the history before it goes on. It ends when its standard input ends, and stops at SIGTERM.
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

// readLanguages reads a list such as go,python,node.
func readLanguages(s string) ([]string, error) {
	all := split(s)
	for _, name := range all {
		if name != inGo && name != inHTTP && programs[name] == nil {
			return nil, fmt.Errorf("-languages is %q, must be some of go, python, node and http, separated by commas", s)
		}
	}
	return all, nil
}

// validateLanguages refuses what the workers in other languages cannot do.
func (c config) validateLanguages() error {
	switch mixed := slices.ContainsFunc(c.languages, func(name string) bool { return name != inGo }); {
	case mixed && c.ordered:
		return errors.New("-ordered is for Go alone: -languages go")
	case c.store != inRedis && slices.ContainsFunc(c.languages, func(name string) bool { return programs[name] != nil }):
		return errors.New("-languages python and node are for -store redis")
	case c.processes < len(c.languages):
		return fmt.Errorf("-processes is %d, must be %d at least: one for each of -languages", c.processes, len(c.languages))
	case mixed && c.broker.Cluster:
		return errors.New("-cluster is for Go alone: -languages go")
	case slices.Contains(c.languages, inHTTP) && (c.abandoned > 0 || c.storeFaults != ""):
		return errors.New("-abandoned and -store-faults are not for -languages http: consume does not know when the " +
			"endpoint gives up a request that it has cancelled")
	}
	return nil
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

// split takes a list apart.
func split(list string) []string { return strings.Split(list, ",") }
