package bench

import (
	"syscall"
	"time"

	"github.com/prometheus/procfs"
)

// cpu is the CPU time used by the broker, by the store, and by this program, the client that is measured.
type cpu [3]time.Duration

// cpu returns the time used so far; zero where there is no /proc.
func (b *bench) cpu() cpu {
	return cpu{groupCPU(b.broker.Private.Group()), groupCPU(b.store.One.Group()), groupCPU(syscall.Getpgrp())}
}

// groupCPU adds up the CPU times of a process group.
func groupCPU(id int) time.Duration {
	seconds := 0.0
	all, _ := procfs.AllProcs()
	for _, p := range all {
		if stat, err := p.Stat(); err == nil && stat.PGRP == id { // else it has just ended, or is of another group
			seconds += stat.CPUTime()
		}
	}
	return time.Duration(seconds * float64(time.Second))
}
