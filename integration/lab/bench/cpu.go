package bench

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// cpu is the CPU time used by the broker, by the store, and by this program, the client that is measured.
type cpu struct{ broker, store, client time.Duration }

// cpu returns the time used so far; zero where there is no /proc.
func (b *bench) cpu() cpu {
	return cpu{groupCPU(b.broker.Private.Group()), groupCPU(b.store.One.Group()), groupCPU(syscall.Getpgrp())}
}

func (c cpu) since(before cpu) cpu {
	return cpu{c.broker - before.broker, c.store - before.store, c.client - before.client}
}

func (c cpu) plus(more cpu) cpu {
	return cpu{c.broker + more.broker, c.store + more.store, c.client + more.client}
}

// tickOfCPU is the unit of processes' times on Linux.
const tickOfCPU = 10 * time.Millisecond

// groupCPU adds up the CPU times of a process group.
func groupCPU(id int) (sum time.Duration) {
	paths, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range paths {
		stat, _ := os.ReadFile(path) // of /proc; fails for a process that has just ended
		if group, used := readStat(stat); group == id {
			sum += used
		}
	}
	return sum
}

// readStat reads a process's group and times; proc_pid_stat(5) numbers the fields, the second may hold anything.
func readStat(stat []byte) (group int, used time.Duration) {
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 13 {
		return 0, 0
	}
	number := func(field int) int {
		n, _ := strconv.Atoi(string(fields[field-3]))
		return n
	}
	return number(5), time.Duration(number(14)+number(15)) * tickOfCPU
}
