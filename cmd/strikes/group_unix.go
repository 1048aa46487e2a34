//go:build unix

package main

import (
	"errors"
	"os/exec"
	"syscall"
	"time"
)

// ownGroup starts cmd in a process group of its own: a Ctrl-C in the terminal is not sent to it, so that it may finish,
// and all that it starts can be ended with it.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	dieWithParent(cmd.SysProcAttr)
}

func terminateGroup(leader int) error { return syscall.Kill(-leader, syscall.SIGTERM) }

func killGroup(leader int) error { return syscall.Kill(-leader, syscall.SIGKILL) }

// reapGroup collects the processes of a killed group that have become children of this process. That happens in a
// container, where this process may be process 1, the parent of all orphans.
func reapGroup(leader int) {
	for end := time.Now().Add(lastOutput); time.Now().Before(end); {
		pid, err := syscall.Wait4(-leader, nil, syscall.WNOHANG, nil)
		switch {
		case err != nil && !errors.Is(err, syscall.EINTR):
			return
		case pid == 0:
			time.Sleep(time.Millisecond) //nolint:forbidigo // the process has been killed
		}
	}
}
