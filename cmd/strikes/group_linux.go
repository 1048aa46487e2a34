package main

import "syscall"

// dieWithParent has the kernel kill the process when this one is killed and can do it no more: its message goes to
// another consumer at that moment. It is sent when the thread that started the process ends, and Go ends none of its
// own accord.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }
