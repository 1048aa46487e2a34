package bench

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// tickOfCPU is the unit of processes' times on Linux.
const tickOfCPU = 10 * time.Millisecond

// ownCPU is the CPU time of this process so far; zero where there is no /proc.
func ownCPU() time.Duration {
	stat, _ := os.ReadFile("/proc/self/stat")
	_, used := readStat(stat)
	return used
}

// groupCPU adds up the CPU times of a process group, as ownCPU.
func groupCPU(id int) (sum time.Duration) {
	paths, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range paths {
		stat, _ := os.ReadFile(path) //nolint:gosec // of /proc; fails for a process that has just ended
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
