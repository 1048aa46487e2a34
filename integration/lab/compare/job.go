package compare

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/strikesmq/strikes/internal/audit"
)

// job is the body of a message: what its handler is to do.
type job struct {
	Seq   int    `json:"seq"` // place in the queue, from 1
	Do    string `json:"do"`
	Times int    `json:"times,omitempty"` // Fail: for so many attempts
	Ms    int    `json:"ms"`              // takes so many milliseconds
}

func (j job) id() string { return fmt.Sprintf("m%06d", j.Seq) }

func (j job) body() []byte {
	b, err := json.Marshal(j)
	if err != nil {
		panic(err) // strings and ints
	}
	return b
}

// mix says what the messages of a run do.
type mix struct {
	fail, poison    float64 // shares of the messages
	killers         int
	fastest, spread int // milliseconds
}

// plan lays out the jobs of a run. Those that fail some times succeed within the retries.
func plan(n int, m mix, rnd *rand.Rand) []job {
	jobs := make([]job, n)
	for i := range jobs {
		jobs[i] = job{Seq: i + 1, Do: audit.Succeed, Ms: m.fastest + rnd.IntN(m.spread+1)}
		switch at := rnd.Float64(); {
		case at < m.poison:
			jobs[i].Do = audit.Poison
		case at < m.poison+m.fail:
			jobs[i].Do, jobs[i].Times = audit.Fail, 1+rnd.IntN(retries)
		}
	}
	for _, i := range rnd.Perm(n / 2)[:min(m.killers, n/2)] { // with neighbours behind them
		jobs[i].Do, jobs[i].Times = audit.Kill, 0
	}
	return jobs
}

var errJob = errors.New("the job says so")

// run does the job. Kill does not return.
func (j job) run(dir string) error {
	time.Sleep(time.Duration(j.Ms) * time.Millisecond) //nolint:forbidigo // the work; nothing cancels it
	switch j.Do {
	case audit.Succeed:
		return nil
	case audit.Fail:
		failed, err := countFailure(filepath.Join(dir, j.id()))
		if err == nil && failed > j.Times {
			return nil
		}
		return errors.Join(errJob, err)
	case audit.Kill:
		_ = syscall.Kill(syscall.Getpid(), syscall.SIGKILL)
		select {} // until the signal arrives
	}
	return errJob
}

// countFailure counts a run of a message in a file that all processes share, and returns which one this is.
func countFailure(name string) (int, error) {
	file, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY,
		0o600) //nolint:gosec // in the history's own directory
	if err != nil {
		return 0, err
	}
	defer file.Close()
	if _, err := file.Write([]byte{'x'}); err != nil {
		return 0, err
	}
	info, err := file.Stat()
	if err != nil {
		return 0, err
	}
	return int(info.Size()), nil
}
