package soak

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os/exec"
	"path"
	"strconv"
	"sync"
	"time"

	"github.com/strikesmq/strikes/integration/internal/fleet"
	"github.com/strikesmq/strikes/integration/internal/ledger"
	"github.com/strikesmq/strikes/integration/internal/work"
)

// runEndpoint is the endpoint's process. It writes down each event before it goes on.
func runEndpoint(ctx context.Context, spec workerSpec) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", spec.Endpoint)
	if err != nil {
		return err
	}
	log, err := ledger.Append(spec.History, spec.Number)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: &postedTo{timeout: spec.HandlerTimeout, log: log}, ReadHeaderTimeout: time.Minute}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	if err = server.Serve(listener); errors.Is(err, http.ErrServerClosed) {
		err = nil
	}
	return errors.Join(err, log.Close())
}

// postedTo does the jobs that are posted to it. The path names the consumer process.
type postedTo struct {
	timeout time.Duration
	log     *ledger.Log
}

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
	p.log.Forward(e)
	var once sync.Once
	end := func(outcome string) {
		once.Do(func() {
			e.Kind, e.At, e.Outcome = ledger.Ended, time.Now(), outcome
			p.log.Forward(e)
		})
	}
	// A request is over for the consumer when it hangs up. After that, no work of the endpoint is isolated from other
	// requests.
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

// firstEndpoint numbers the parts of endpoints in the history, beyond those of consumers.
const firstEndpoint = 900_000

// endpoint keeps a process of an endpoint running. Between two of them nothing listens.
func (k *soak) endpoint(spec workerSpec) *fleet.Fleet {
	return &fleet.Fleet{Rest: restartAfter, Fail: k.fail, Seats: []*fleet.Seat{{
		Command: func(int) (*exec.Cmd, io.Closer, error) { return fleet.Command(spec) },
		Exited: func(int, error) {
			k.log.Write(ledger.Event{Kind: ledger.Fault, Fault: ledger.EndpointDied})
		},
	}}}
}

const restartAfter = 50 * time.Millisecond
