// Package work does the work that the messages of the laboratory give their handlers.
package work

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"syscall"
	"time"

	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/internal/audit"
	"github.com/strikesmq/strikes/internal/pause"
)

// Job is the body of a message. It says how its handler behaves.
type Job struct {
	Seq   int    `json:"seq,omitempty"` // place in the queue, from 1
	Do    string `json:"do"`
	Times int    `json:"times,omitempty"` // Fail: for so many attempts
	Ms    int    `json:"ms"`              // takes so many milliseconds
	Lane  int    `json:"lane,omitempty"`
}

// Read reads the body of a message. A body that is not whole is a job that always fails.
func Read(body []byte) (j Job) {
	_ = json.Unmarshal(body, &j)
	return j
}

// ID is the id of the message.
func (j Job) ID() string { return fmt.Sprintf("m%06d", j.Seq) }

// Body is the body of the message.
func (j Job) Body() []byte {
	b, err := json.Marshal(j)
	if err != nil {
		panic(err) // strings and ints
	}
	return b
}

// ErrJob is wrapped by the error of Run if the job is to fail, and by that of Call.
var ErrJob = errors.New("the job says so")

// deafFor is longer than a consumer waits for a handler whose context is done.
const deafFor = 3 * time.Second

// Run does the job in a handler. Kill does not return. attempt returns the number of this attempt at the message.
func (j Job) Run(ctx context.Context, attempt func() (int, error)) error {
	if !pause.For(ctx, time.Duration(j.Ms)*time.Millisecond) {
		return ctx.Err()
	}
	switch j.Do {
	case audit.Succeed, audit.Slow:
		return nil
	case audit.Fail:
		number, err := attempt()
		if err == nil && number > j.Times {
			return nil
		}
		return errors.Join(fmt.Errorf("attempt %d of %d to fail: %w", number, j.Times, ErrJob), err)
	case audit.Reject:
		return consumer.Reject(ErrJob)
	case audit.Hang:
		<-ctx.Done()
		return ctx.Err()
	case audit.Deaf:
		<-ctx.Done()
		pause.For(context.WithoutCancel(ctx), deafFor)
		return ctx.Err()
	case audit.Kill:
		if err := syscall.Kill(syscall.Getpid(), syscall.SIGKILL); err != nil {
			panic(err)
		}
		select {} // until the signal arrives
	}
	return ErrJob // Poison; Panic is left to the caller
}

const callTimeout = 2 * time.Second

// Call calls the service at a URL that a handler needs. Its error wraps ErrJob, unless ctx is done. An empty URL names
// no service.
func Call(ctx context.Context, url string) error {
	if url == "" {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(limited, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return fmt.Errorf("%w: %w", ErrJob, err)
	}
	return response.Body.Close()
}
