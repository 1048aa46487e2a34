package bench

import (
	"runtime"
	"syscall"
	"testing"
	"time"
)

func TestReadStat(t *testing.T) {
	for stat, want := range map[string]struct {
		group int
		used  time.Duration
	}{
		"42 (a) b (c) S 1 77 77 0 -1 4194560 100 0 0 0 150 25 0 0 20 0 1 0": {77, 1750 * time.Millisecond},
		"42 (cut) S 1 77": {}, "": {}, "no end": {},
	} {
		if group, used := readStat([]byte(stat)); group != want.group || used != want.used {
			t.Errorf("%q: group %d, %v; want %+v", stat, group, used, want)
		}
	}
}

func TestGroupCPU(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has a /proc to read it from")
	}
	before := groupCPU(syscall.Getpgrp())
	for end := time.Now().Add(20 * time.Second); groupCPU(syscall.Getpgrp()) == before; {
		if time.Now().After(end) {
			t.Fatalf("20 s of work left it at %v", before)
		}
	}
}
