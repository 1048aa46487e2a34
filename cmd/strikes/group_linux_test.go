package main

import (
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
)

// TestCommandLeavesNoZombies makes this process the parent of orphans, as it is in a container.
func TestCommandLeavesNoZombies(t *testing.T) {
	const setChildSubreaper = 36
	adopt := func(yes uintptr) {
		if _, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, setChildSubreaper, yes, 0); errno != 0 {
			t.Fatal(errno)
		}
	}
	adopt(1)
	defer adopt(0)
	pidFile := filepath.Join(t.TempDir(), "pid")
	c, _, _ := shellCommand(t, `sleep 600 & echo $! >"$PID_FILE"; exit 0`)
	need(t, c.Run(t.Context(), append(os.Environ(), "PID_FILE="+pidFile), nil))
	child := readPID(t, pidFile)
	if _, err := os.Stat("/proc/" + strconv.Itoa(child)); err == nil {
		t.Errorf("process %d was not collected", child)
	}
}
