//go:build !unix

package main

import (
	"os"
	"os/exec"
)

// Without process groups, only the command itself is ended.

func ownGroup(*exec.Cmd) {}

func terminateGroup(leader int) error { return killGroup(leader) }

func killGroup(leader int) error {
	p, err := os.FindProcess(leader)
	if err != nil {
		return err
	}
	return p.Kill()
}
