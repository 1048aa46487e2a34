//go:build unix

package servers

import (
	"os/exec"
	"syscall"
)

const supported = true

// detach gives cmd a session, and so a process group, of its own: a Ctrl-C in
// the terminal reaches this process only, and the group can be killed whole.
func detach(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
}

// nobody is the user and group without rights, on Linux.
const nobody = 65534

// runAs has cmd run as a user; if 0, as this process's.
func runAs(cmd *exec.Cmd, user int) {
	if user != 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(user), Gid: uint32(user)} //nolint:gosec // small
	}
}

func signalGroup(group int, sig syscall.Signal) error {
	return syscall.Kill(-group, sig)
}

const (
	sigTerm = syscall.SIGTERM
	sigKill = syscall.SIGKILL
	sigStop = syscall.SIGSTOP
	sigCont = syscall.SIGCONT
)
