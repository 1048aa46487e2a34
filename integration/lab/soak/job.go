package soak

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"syscall"
	"time"

	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/internal/audit"
	"github.com/strikesmq/strikes/internal/pause"
)

// job is the body of a message: what its handler is to do.
type job struct {
	Do    string `json:"do"`
	Times int    `json:"times,omitempty"` // Fail: for so many attempts
	Ms    int    `json:"ms"`              // takes so many milliseconds
	Lane  int    `json:"lane,omitempty"`
}

// share is how many of a thousand messages are of each kind; the rest succeed. Killers and those that pass the deadline
// are chosen apart, for each costs the fleet more than a second.
var share = []struct {
	do     string
	permil int
}{
	{audit.Slow, 20}, {audit.Fail, 80}, {audit.Poison, 20}, {audit.Reject, 10}, {audit.Panic, 10},
}

// plan lays out the jobs of a soak.
func plan(cfg config, rnd *rand.Rand) []job {
	jobs := make([]job, cfg.messages)
	if fault, ok := findStoreFault(cfg.storeFaults); ok && fault.directed != nil {
		return planDirected(jobs)
	}
	for i := range jobs {
		jobs[i] = job{Do: audit.Succeed, Ms: rnd.IntN(3), Lane: (i + 1) % cfg.lanes}
		if cfg.plain {
			jobs[i].Ms = 20 + rnd.IntN(40)
			continue
		}
		at := rnd.IntN(1000)
		for _, s := range share {
			if at -= s.permil; at < 0 {
				jobs[i].Do = s.do
				break
			}
		}
		switch jobs[i].Do {
		case audit.Slow:
			if jobs[i].Ms = 100 + rnd.IntN(400); cfg.ordered {
				jobs[i].Ms /= 50
			}
		case audit.Fail:
			jobs[i].Times = 1 + rnd.IntN(cfg.maxRetries)
		}
	}
	for _, costly := range []struct {
		do string
		n  int
	}{{audit.Kill, cfg.killers}, {audit.Hang, cfg.hangs}, {audit.Deaf, cfg.hangs / 2}, {audit.Abandon, cfg.abandoned}} {
		for _, i := range rnd.Perm(len(jobs))[:min(costly.n, len(jobs))] {
			jobs[i] = job{Do: costly.do, Lane: jobs[i].Lane}
		}
	}
	return jobs
}

// planDirected has a healthy message, and killers which end its process before it succeeds, unless it runs isolated.
func planDirected(jobs []job) []job {
	for i := range jobs {
		jobs[i] = job{Do: audit.Kill}
	}
	jobs[0] = job{Do: audit.Succeed, Ms: 300}
	return jobs
}

func (j job) body() []byte {
	b, err := json.Marshal(j)
	if err != nil {
		panic(err) // strings and ints
	}
	return b
}

var errJob = errors.New("the job says so")

const (
	deafFor      = 3 * time.Second // longer than a consumer waits for a handler whose context is done
	abandonedFor = 6 * time.Second // long enough for a suspect to get the isolation lock
)

// run does the job in a handler. Kill does not return. An abandoned handler is told whether an isolated one runs.
func (j job) run(ctx context.Context, number int, isolated func() bool) error {
	if !pause.For(ctx, time.Duration(j.Ms)*time.Millisecond) {
		return ctx.Err()
	}
	switch j.Do {
	case audit.Succeed, audit.Slow:
		return nil
	case audit.Fail:
		if number > j.Times {
			return nil
		}
		return fmt.Errorf("attempt %d of %d to fail: %w", number, j.Times, errJob)
	case audit.Reject:
		return consumer.Reject(errJob)
	case audit.Hang:
		<-ctx.Done()
		return ctx.Err()
	case audit.Deaf:
		<-ctx.Done()
		pause.For(context.WithoutCancel(ctx), deafFor)
		return ctx.Err()
	case audit.Abandon:
		<-ctx.Done()
		return j.outlive(ctx, isolated)
	case audit.Kill:
		kill()
	}
	return errJob // Poison; Panic is left to the caller
}

// outlive runs on after the deadline, and kills this process once a handler runs isolated in it, or abandonedFor is
// over.
func (j job) outlive(ctx context.Context, isolated func() bool) error {
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) { // the process stops, or lost its session
		return ctx.Err()
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abandonedFor)
	defer cancel()
	for !isolated() && pause.For(ctx, time.Millisecond) {
	}
	kill()
	return nil
}

// kill ends this process. It does not return.
func kill() {
	if err := syscall.Kill(syscall.Getpid(), syscall.SIGKILL); err != nil {
		panic(err)
	}
	select {} // until the signal arrives
}

// outcome is what a run came to.
func outcome(ctx context.Context, j job, err error) string {
	switch {
	case err == nil:
		return audit.OK
	case j.Do == audit.Reject && errors.Is(err, errJob):
		return audit.Rejected
	case errors.Is(err, errJob):
		return audit.Failed
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return audit.TimedOut
	}
	return audit.Cancelled
}
