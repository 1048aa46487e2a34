package soak

import (
	"bytes"
	"cmp"
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
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/strikesmq/strikes/integration/internal/fleet"
	"github.com/strikesmq/strikes/integration/internal/ledger"
	"github.com/strikesmq/strikes/integration/internal/work"
	"github.com/strikesmq/strikes/internal/audit"
)

// inHTTP is the language of an endpoint: the process of the seat is the command strikes consume --http, as it is
// released. It records nothing. So this program records its sessions from the wire, and its dead letters from its
// standard output. The endpoint records its own events.
const inHTTP = "http"

// pusher has the parts of a seat of that language beside its process.
type pusher struct {
	log      *ledger.Log
	binary   string
	endpoint *fleet.Fleet // of one seat
	address  string       // of the endpoint

	mu       sync.Mutex
	number   int       // of the consumer process
	sessions int       // of this process so far
	lost     time.Time // when the newest session of this process ended, as long as that may be its own doing
	stopped  time.Time // when this process was told to stop
}

// push makes a seat one of the language http.
func (k *soak) push(ctx context.Context, s *fleet.Seat, spec workerSpec) error {
	p := &pusher{log: k.log, binary: filepath.Join(k.history, "strikes")}
	build := exec.CommandContext(ctx, "go", "build", "-o", p.binary, "github.com/strikesmq/strikes/cmd/strikes")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("building strikes: %w\n%s", err, out)
	}
	s.Broker.Watch(p.joined)
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0") // a port that is free
	if err != nil {
		return fmt.Errorf("an address for the endpoint: %w", err)
	}
	p.address = listener.Addr().String()
	if err := listener.Close(); err != nil {
		return err
	}
	endpoint := workerSpec{Endpoint: p.address, HandlerTimeout: k.cfg.handlerTimeout, History: k.history,
		Number: firstEndpoint + len(k.pushers)}
	p.endpoint = &fleet.Fleet{Rest: restartAfter, Fail: k.fail, Seats: []*fleet.Seat{{
		Command: func(int) (*exec.Cmd, io.Closer, error) { return fleet.Command(endpoint) },
		Exited: func(int, error) {
			k.log.Write(audit.Event{Kind: audit.Fault, Fault: audit.EndpointDied})
		},
	}}}
	p.endpoint.Start(ctx)
	k.pushers = append(k.pushers, p)
	spec.AMQP, spec.Redis = s.AMQP, s.Redis
	s.Command = func(number int) (*exec.Cmd, io.Closer, error) {
		of := spec
		of.Number = number
		return p.command(of)
	}
	exited := s.Exited
	s.Told = p.told
	s.Exited = func(number int, err error) { p.exited(number, err); exited(number, err) }
	return nil
}

// command returns the consumer to start, whose number is in the path that it posts to, and its standard input. The
// consumer is killed when that is closed, also because this process ends.
func (p *pusher) command(spec workerSpec) (cmd *exec.Cmd, stdin io.Closer, err error) {
	url := fmt.Sprintf("http://%s/%d", p.address, spec.Number)
	cmd = exec.Command("sh", "-c", guarded, "sh", p.binary, "consume", spec.Queue, //nolint:noctx // the fleet ends it
		"--http", url, "--json",
		"--concurrency", strconv.Itoa(spec.Concurrency), "--prefetch", strconv.Itoa(spec.Prefetch), "--max-retries",
		strconv.Itoa(spec.MaxRetries),
		"--backoff", fmt.Sprintf("%v..%v", spec.FirstBackoff, spec.MostBackoff), "--handler-timeout",
		spec.HandlerTimeout.String(),
		"--consumer-timeout", spec.ConsumerTimeout.String(), "--drain-timeout", drainTimeout.String())
	cmd.Env = append(os.Environ(), fmt.Sprintf("AMQP_URL=%s?heartbeat=%d", spec.AMQP, spec.Heartbeat/time.Second),
		"REDIS_URL="+spec.Redis)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Stdout = &lines{each: func(line []byte) { p.decided(spec.Number, line) }}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.number, p.sessions, p.lost, p.stopped = spec.Number, 0, time.Time{}, time.Time{}
	stdin, err = cmd.StdinPipe()
	return cmd, stdin, err
}

// guarded is a script that runs its arguments, and kills them once its standard input ends: this process holds the
// other end.
const guarded = `exec 3<&0; { read -r _; kill -9 $$; } <&3 >/dev/null 2>&1 & exec "$@" </dev/null 3<&-`

// joined records the begin of a session.
func (p *pusher) joined() (left func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	number := p.number
	p.lose(number)
	p.sessions++
	p.log.Forward(audit.Event{Kind: audit.Opened, Process: number, Session: p.sessions})
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.number == number {
			p.lost = time.Now()
		}
	}
}

// lose records that the newest session was lost, if it has ended.
func (p *pusher) lose(number int) {
	if !p.lost.IsZero() {
		p.log.Forward(audit.Event{Kind: audit.Lost, At: p.lost, Process: number, Session: p.sessions,
			Err: "its connection ended"})
	}
	p.lost = time.Time{}
}

// told is called before the process gets a signal: a session that ends after it was told to stop is ended by it.
func (p *pusher) told(sig syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if sig == syscall.SIGTERM {
		p.stopped = time.Now()
	}
}

// exited records how the process ended.
func (p *pusher) exited(number int, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil || p.stopped.IsZero() || p.lost.Before(p.stopped) {
		p.lose(number)
	}
}

// decided records a dead letter, as consume --json prints it.
func (p *pusher) decided(process int, line []byte) {
	var d struct{ Decision, ID, Token string }
	if err := json.Unmarshal(line, &d); err != nil {
		panic(fmt.Sprintf("consume --json printed %q: %v", line, err))
	}
	if d.Decision == "dead-letter" {
		p.log.Forward(audit.Event{Kind: audit.Decided, Process: process, ID: d.ID, Token: d.Token})
	}
}

// lines is a writer that hands over each line.
type lines struct {
	each func(line []byte)
	part []byte
}

func (l *lines) Write(b []byte) (int, error) {
	l.part = append(l.part, b...)
	for {
		line, rest, whole := bytes.Cut(l.part, []byte("\n"))
		if !whole {
			return len(b), nil
		}
		l.each(line)
		l.part = rest
	}
}

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
	j := work.Read(body)
	process, _ := strconv.Atoi(path.Base(r.URL.Path))
	number, _ := strconv.Atoi(r.Header.Get("Strikes-Attempt"))
	began := time.Now()
	e := audit.Event{Kind: audit.Began, At: began, Process: process, ID: r.Header.Get("Strikes-Message-Id"),
		Token: r.Header.Get("Strikes-Token"), Remote: true}
	p.log.Forward(e)
	end := func(outcome string) {
		e.Kind, e.At, e.Outcome = audit.Ended, time.Now(), outcome
		p.log.Forward(e)
	}
	// A request is over for the consumer when it hangs up. After that, no work of the endpoint is isolated from other
	// requests.
	stop := context.AfterFunc(r.Context(), func() { end(hungUp(time.Since(began), p.timeout)) })
	err = j.Run(r.Context(), func() (int, error) { return number, nil })
	if !stop() {
		return
	}
	ended := outcome(r.Context(), j, err)
	end(ended)
	w.WriteHeader(cmp.Or(statusOf[ended], http.StatusInternalServerError)) // also after a panic, as with most servers
}

// statusOf has the statuses of outcomes that are no errors of the endpoint.
var statusOf = map[string]int{audit.OK: http.StatusNoContent, audit.Rejected: http.StatusUnprocessableEntity}

// hungUp is the outcome of a request whose client ended it after some time: at its deadline, which began before the
// request came, or because it stops or lost its session.
func hungUp(after, timeout time.Duration) string {
	if after >= timeout/2 {
		return audit.TimedOut
	}
	return audit.Cancelled
}

const (
	// firstEndpoint numbers the parts of endpoints in the history, beyond those of consumers.
	firstEndpoint = 900_000
	// restartAfter is the time between two processes of an endpoint. Nothing listens then.
	restartAfter = 50 * time.Millisecond
)
