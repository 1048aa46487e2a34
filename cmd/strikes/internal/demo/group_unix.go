//go:build unix

package demo

import (
	"os/exec"
	"syscall"
)

// ownGroup starts cmd in a process group of its own: a Ctrl-C in the terminal is not sent to it, so that it stops in
// order.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
