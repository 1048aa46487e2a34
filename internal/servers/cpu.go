package servers

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// tickOfCPU is the unit in which Linux tells processes' times.
const tickOfCPU = 10 * time.Millisecond

// CPU is how long processors have worked for the broker so far; zero where the system does not tell: it is read from /proc.
func (r *RabbitMQ) CPU() time.Duration { return r.server.cpu() }

// CPU is how long processors have worked for the store so far, as RabbitMQ's.
func (r *Redis) CPU() time.Duration { return r.server.cpu() }

// OwnCPU is how long processors have worked for this process so far, as RabbitMQ's CPU.
func OwnCPU() time.Duration {
	stat, _ := os.ReadFile("/proc/self/stat")
	_, used := readStat(stat)
	return used
}

// cpu adds up the processes of the child's group.
func (c *child) cpu() (sum time.Duration) {
	if !c.running() {
		return 0
	}
	paths, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range paths {
		stat, _ := os.ReadFile(path) // of one that has just ended there is none
		if group, used := readStat(stat); group == c.group {
			sum += used
		}
	}
	return sum
}

// readStat reads a process's group and times; proc_pid_stat(5) numbers the fields, of which the second may hold anything.
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
