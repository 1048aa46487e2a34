package integration

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/strikesmq/strikes/integration/internal/fleet"
)

// endpoint is the configuration of an endpoint's process. The process writes a line to Ledger, with one write(2), when
// a request has arrived and when it is answered. The line has "begin" or the status, the id, the attempt, and the
// SHA-256 of the body.
type endpoint struct {
	Addr, Ledger string
	Fail         []string // ids that get 500
	Kill         []string // ids that kill the process
	Busy         []string // ids that get 503 at each process's first request for them
	Gate         string   // while this file exists, a request for an id of Kill waits until its client has gone
	Takes        time.Duration
}

func (e endpoint) run(ctx context.Context) error {
	ledger, err := os.OpenFile(e.Ledger, os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", e.Addr)
	if err != nil {
		return err
	}
	var busy sync.Map
	server := &http.Server{ReadHeaderTimeout: time.Minute,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if _, err := io.Copy(io.Discard, r.Body); err != nil {
				return // the client has gone
			}
			id := r.Header.Get("Strikes-Message-Id")
			note := func(what any) {
				fmt.Fprintf(ledger, "%v %s %s\n", what, id, r.Header.Get("Strikes-Attempt"))
			}
			note("begin")
			time.Sleep(e.Takes)
			status := http.StatusNoContent
			_, again := busy.LoadOrStore(id, true)
			switch {
			case slices.Contains(e.Kill, id) && e.gated():
				<-r.Context().Done()
				return
			case slices.Contains(e.Kill, id):
				_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			case slices.Contains(e.Fail, id):
				status = http.StatusInternalServerError
			case slices.Contains(e.Busy, id) && !again:
				status = http.StatusServiceUnavailable
			}
			note(status)
			w.WriteHeader(status)
		})}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	return server.Serve(listener)
}

func (e endpoint) gated() bool {
	_, err := os.Stat(e.Gate)
	return err == nil
}

// supervised is an endpoint whose process is started again whenever it ends. Between two processes nothing listens.
type supervised struct {
	endpoint
	URL  string
	seat *fleet.Seat
}

// supervise starts the endpoint, at a free port, until the test ends.
func (e endpoint) supervise(t *testing.T) *supervised {
	t.Helper()
	return e.superviseAt(t, freeAddress(t))
}

// freeAddress is one at which nothing listens. Its port is below those of outgoing connections, one of which could take
// it before the endpoint does, and below those of package servers.
func freeAddress(t *testing.T) (address string) {
	t.Helper()
	eventually(t, "a free port", func() bool {
		address = fmt.Sprint("127.0.0.1:", 20000+rand.IntN(5000))
		listener, err := net.Listen("tcp", address)
		return err == nil && listener.Close() == nil
	})
	return address
}

func (e endpoint) superviseAt(t *testing.T, address string) *supervised {
	t.Helper()
	e.Addr, e.Ledger = address, filepath.Join(t.TempDir(), "endpoint")
	seat := &fleet.Seat{Command: func(int) (*exec.Cmd, io.Closer, error) { return fleet.Command(worker{Serve: &e}) }}
	f := &fleet.Fleet{Seats: []*fleet.Seat{seat}, Rest: 50 * time.Millisecond, Fail: func(err error) { t.Error(err) }}
	f.Start(context.WithoutCancel(t.Context()))
	t.Cleanup(f.Close)
	return &supervised{e, "http://" + address + "/", seat}
}

func (s *supervised) kill() { _ = s.seat.Signal(syscall.SIGKILL) } // it may have ended

// posted is one line of the endpoint's ledger.
type posted struct{ what, id, attempt string }

func (s *supervised) ledger(t *testing.T) (all []posted) {
	t.Helper()
	text, err := os.ReadFile(s.Ledger)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) == 3 {
			all = append(all, posted{f[0], f[1], f[2]})
		}
	}
	return all
}

// posts returns the requests for some messages.
func (s *supervised) posts(t *testing.T, ids ...string) (all []posted) {
	t.Helper()
	for _, p := range s.ledger(t) {
		if p.what == "begin" && slices.Contains(ids, p.id) {
			all = append(all, p)
		}
	}
	return all
}

// handled counts the messages that got 204.
func (s *supervised) handled(t *testing.T) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	for _, p := range s.ledger(t) {
		if p.what == "204" {
			out[p.id] = true
		}
	}
	return out
}

// pushing is a process of strikes consume --http.
type pushing struct {
	process
	env    []string
	stderr *lockedBuffer
}

// push starts strikes consume --http on a queue, which ends with the test at the latest.
func push(t *testing.T, strikes, queue, prefix, url string, flags ...string) *pushing {
	t.Helper()
	cmd := exec.Command(strikes, append([]string{"consume", queue, "--http", url, "--backoff", "20ms..500ms"},
		flags...)...)
	cmd.Env = append(os.Environ(), "AMQP_URL="+brokerURL(t), "REDIS_URL="+redisURL(t), "STRIKES_MANAGEMENT_URL="+
		managementURL(t), "STRIKES_PREFIX="+prefix)
	stderr := &lockedBuffer{}
	cmd.Stderr = stderr
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("stderr:\n%s", stderr)
		}
	})
	return &pushing{started(t, cmd), cmd.Env, stderr}
}

type lockedBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
