// Package clitest holds what tests of several rooms use.
package clitest

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// Output is what commands print, from several goroutines.
type Output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// ReadPID reads the process id in a file.
func ReadPID(t testing.TB, file string) int {
	t.Helper()
	b, err := os.ReadFile(file) //nolint:gosec // a file of the test
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}
