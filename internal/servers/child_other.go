//go:build !unix

package servers

import (
	"errors"
	"os/exec"
	"syscall"
)

const supported = false

func detach(*exec.Cmd) {}

const nobody = 0

func runAs(*exec.Cmd, int) {}

func signalGroup(int, syscall.Signal) error { return errors.ErrUnsupported }

const (
	sigTerm = syscall.Signal(15)
	sigKill = syscall.Signal(9)
	sigStop = syscall.Signal(0)
	sigCont = syscall.Signal(0)
)
