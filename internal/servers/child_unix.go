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

func signalGroup(group int, sig syscall.Signal) error {
	return syscall.Kill(-group, sig)
}

const (
	sigTerm = syscall.SIGTERM
	sigKill = syscall.SIGKILL
	sigStop = syscall.SIGSTOP
	sigCont = syscall.SIGCONT
)
