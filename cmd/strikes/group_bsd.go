//go:build unix && !linux

package main

import "syscall"

// dieWithParent needs a kernel that can do it.
func dieWithParent(*syscall.SysProcAttr) {}
