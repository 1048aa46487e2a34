//go:build unix

package clitest

import (
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// Alive reports whether a process runs. A zombie does not: its parent, as of all orphans, may be slow to collect it.
func Alive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	state, err := exec.Command("ps", "-o", "state=", "-p", strconv.Itoa(pid)).Output() //nolint:gosec,noctx // a number
	return err == nil && !strings.HasPrefix(strings.TrimSpace(string(state)), "Z")
}
