//go:build unix

package main

import (
	"os/exec"
	"syscall"
)

// ownGroup starts cmd in a process group of its own: a Ctrl-C in the terminal is not sent to it, so that it may finish,
// and all that it starts can be ended with it.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	dieWithParent(cmd.SysProcAttr)
}

func terminateGroup(leader int) error { return syscall.Kill(-leader, syscall.SIGTERM) }

func killGroup(leader int) error { return syscall.Kill(-leader, syscall.SIGKILL) }
