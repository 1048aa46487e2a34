package soak

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path"
	"strconv"
	"sync"
	"time"

	"github.com/strikesmq/strikes/integration/internal/fleet"
	"github.com/strikesmq/strikes/integration/internal/ledger"
	"github.com/strikesmq/strikes/integration/internal/work"
)

// runEndpoint is the endpoint's process. It prints each event before it goes on.
func runEndpoint(ctx context.Context, spec workerSpec) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", spec.Endpoint)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: &postedTo{timeout: spec.HandlerTimeout}, ReadHeaderTimeout: time.Minute}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// postedTo does the jobs that are posted to it. The path names the consumer process.
type postedTo struct{ timeout time.Duration }

func (p *postedTo) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client has gone
	}
	j, err := work.Read(body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusUnprocessableEntity)
		return
	}
	process, _ := strconv.Atoi(path.Base(r.URL.Path))
	number, _ := strconv.Atoi(r.Header.Get("Strikes-Attempt"))
	began := time.Now()
	e := ledger.Event{Kind: ledger.Began, At: began, Process: process, ID: r.Header.Get("Strikes-Message-Id"),
		Token: r.Header.Get("Strikes-Token"), Remote: true}
	emit(e)
	var once sync.Once
	end := func(outcome string) {
		once.Do(func() {
			e.Kind, e.At, e.Outcome = ledger.Ended, time.Now(), outcome
			emit(e)
		})
	}
	// A request is over for the consumer when it hangs up. What the endpoint does after that is not isolated from
	// anything.
	stop := context.AfterFunc(r.Context(), func() { end(hungUp(time.Since(began), p.timeout)) })
	err = j.Run(r.Context(), func() (int, error) { return number, nil }, func() bool { return false })
	if r.Context().Err() != nil || !stop() {
		return
	}
	outcome, status := answer(j, err)
	end(outcome)
	w.WriteHeader(status)
}

// hungUp is the outcome of a request whose client ended it after some time: at its deadline, which began before the
// request came, or because it stops or lost its session.
func hungUp(after, timeout time.Duration) string {
	if after >= timeout/2 {
		return ledger.TimedOut
	}
	return ledger.Cancelled
}

// answer is the outcome of a job, and the response that says so. A panic is a 500, as with most servers of HTTP.
func answer(j work.Job, err error) (outcome string, status int) {
	switch {
	case err == nil:
		return ledger.OK, http.StatusNoContent
	case j.Do == ledger.Reject:
		return ledger.Rejected, http.StatusUnprocessableEntity
	case j.Do == ledger.Panic:
		return ledger.Panicked, http.StatusInternalServerError
	}
	return ledger.Failed, http.StatusInternalServerError
}

// emit writes an event to the standard output, in one write.
func emit(e ledger.Event) {
	line, err := json.Marshal(e)
	if err == nil {
		_, err = os.Stdout.Write(append(line, '\n'))
	}
	if err != nil {
		panic(fmt.Sprintf("printing an event: %v", err))
	}
}

// endpoint keeps a process of the endpoint running. Between two of them nothing listens. Says is called with each line
// that one prints, and died when it has ended and all its lines were read.
func endpoint(address string, timeout time.Duration, says func(line []byte), died func(),
	fail func(error)) *fleet.Fleet {
	return &fleet.Fleet{Rest: restartAfter, Fail: fail, Seats: []*fleet.Seat{{
		Command: func(int) (*exec.Cmd, io.Closer, error) {
			cmd, stdin, err := fleet.Command(workerSpec{Endpoint: address, HandlerTimeout: timeout})
			if err == nil {
				cmd.Stdout = &lines{each: says}
			}
			return cmd, stdin, err
		},
		Exited: func(int, error) { died() },
	}}}
}

const restartAfter = 50 * time.Millisecond
