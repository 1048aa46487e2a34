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
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/integration/internal/fleet"
	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/internal/servertest"
	"github.com/strikesmq/strikes/publisher"
	"github.com/strikesmq/strikes/topology"
)

// publishLanes sends messages m000, m001, … of so many lanes in turn.
func publishLanes(t *testing.T, queue string, n, lanes int) {
	t.Helper()
	msgs := make([]publisher.Message, n)
	for i := range msgs {
		id := fmt.Sprintf("m%03d", i)
		msgs[i] = publisher.Message{Key: queue, Publishing: amqp.Publishing{
			MessageId: id, Body: []byte(id), Headers: amqp.Table{"customer": fmt.Sprint(i % lanes)},
		}}
	}
	publishAll(t, msgs...)
}

// TestPush has endpoints die and come back under load, by kills from outside and by a message that kills each: nothing
// is lost, counts are exact, order is kept.
func TestPush(t *testing.T) {
	t.Parallel()
	const n, kills, limit = 240, 6, 3
	strikes := servertest.Program(t, "cmd/strikes")
	for _, tc := range []struct {
		name  string
		typ   topology.Type
		lanes int // 0: no order
		flags []string
	}{
		{"classic, 8 at a time", topology.Classic, 0, []string{"--concurrency", "8"}},
		{"quorum, ordered", topology.Quorum, 1, []string{"--ordered"}},
		{"classic, lanes", topology.Classic, 4, []string{"--ordered", "--lane-header", "customer", "--concurrency", "4"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel() // most of it is waiting
			queue := declaredAs(t, topology.Spec{Type: tc.typ, SingleActiveConsumer: tc.lanes > 0})
			prefix := uniqueName(t, "strikes")
			c := ofPrefix(t, prefix)
			killer, fails, busy := "m100", []string{"m020", "m021", "m150", "m239"}, []string{"m030", "m031", "m032", "m160"}
			e := endpoint{Kill: []string{killer}, Fail: fails, Busy: busy, Takes: 4 * time.Millisecond}.supervise(t)
			publishLanes(t, queue, n, max(tc.lanes, 1))
			p := push(t, strikes, queue, prefix, e.URL, append(tc.flags, "--max-retries", fmt.Sprint(limit-1))...)
			for range kills {
				before := len(e.ledger(t))
				eventually(t, "the endpoint works", func() bool {
					return len(e.ledger(t)) > before+40 || len(e.handled(t)) == n-1-len(fails)
				})
				e.kill()
			}
			eventually(t, "every message is handled or dead-lettered", func() bool {
				return len(e.handled(t)) == n-1-len(fails) && queueDepth(t, queue+".dlq") == 1+len(fails)
			})
			terminate(t, p.process)
			if left := queueDepth(t, queue); left != 0 {
				t.Errorf("%d messages are left", left)
			}
			for _, id := range append(fails, killer) {
				r := one(t, c, queue, id)
				if r.State != counter.StateDeadLetter || r.Failures != limit || id == killer && crashes(r) != limit {
					t.Errorf("%s: %d failures, %d of them crashes, state %q", id, r.Failures, crashes(r), r.State)
				}
			}
			if r := one(t, c, queue, killer); !strings.Contains(r.Reason, "ended the connection before its response") {
				t.Errorf("%s: the reason is %q", killer, r.Reason)
			}
			runs := map[string]int{}
			for _, post := range e.ledger(t) {
				if post.what == "begin" {
					runs[post.id]++
				}
			}
			// A process that is killed with a connection that it had not accepted yet looks as if an isolated attempt had killed
			// it: that is a crash without a post.
			if runs[killer] < 1 || runs[killer] > limit+1+kills {
				t.Errorf("the killer was posted %d times", runs[killer])
			}
			for _, id := range fails {
				r := one(t, c, queue, id)
				if least := r.Failures - crashes(r); runs[id] < least || runs[id] > limit+kills+1 {
					t.Errorf("%s was posted %d times, with %d failures", id, runs[id], least)
				}
			}
			inOrder(t, e, tc.lanes)
		})
	}
}

// crashes is how many failed attempts ended with the process of the endpoint, or of consume.
func crashes(r counter.Record) (n int) {
	for _, attempt := range r.History {
		if attempt.Cause == counter.CauseCrashed {
			n++
		}
	}
	return n
}

// TestPushKilled kills consume itself whenever it posts a killer, at first beside other messages and then isolated, and
// later lets the killers end the endpoint: the count goes on, and no neighbour pays for it.
func TestPushKilled(t *testing.T) {
	servertest.Long(t)
	t.Parallel()
	const n, retries, kills = 120, 4, 8
	strikes := servertest.Program(t, "cmd/strikes")
	eachType(t, func(t *testing.T, queue string) {
		t.Parallel() // most of it is waiting
		prefix := uniqueName(t, "strikes")
		c := ofPrefix(t, prefix)
		killers := []string{"m010", "m060"}
		gate := filepath.Join(t.TempDir(), "gate")
		need(t, os.WriteFile(gate, nil, 0o600))
		e := endpoint{Kill: killers, Takes: 2 * time.Millisecond, Gate: gate}.supervise(t)
		start := func() *pushing {
			return push(t, strikes, queue, prefix, e.URL, "--max-retries", fmt.Sprint(retries), "--concurrency", "4")
		}
		publishLanes(t, queue, n, 1)
		p, before, isolated := start(), 0, 0
		for range kills {
			eventually(t, "a killer is posted", func() bool { return len(e.posts(t, killers...)) > before })
			if said := p.stderr.String(); strings.Contains(said, "isolate "+killers[0]) || strings.Contains(said,
				"isolate "+killers[1]) {
				isolated++
			}
			p.crash()
			before = len(e.posts(t, killers...))
			p = start()
		}
		if isolated == 0 {
			t.Error("consume was never killed while a killer was isolated")
		}
		need(t, os.Remove(gate))
		e.kill() // a request may still wait
		eventually(t, "every message is handled or dead-lettered", func() bool {
			return len(e.handled(t)) == n-len(killers) && queueDepth(t, queue+".dlq") == len(killers)
		})
		// a kill may have come before the ack of a message that was handled
		api, err := broker.NewAPI(managementURL(t), nil)
		need(t, err)
		conn := dialBroker(t)
		eventually(t, "every message is acked", func() bool {
			load, err := api.Load(t.Context(), conn, queue)
			return err == nil && load.Ready+load.Unacked == 0
		})
		terminate(t, p.process)
		if left := queueDepth(t, queue); left != 0 {
			t.Errorf("%d messages are left", left)
		}
		for _, id := range killers {
			r := one(t, c, queue, id)
			if r.State != counter.StateDeadLetter || crashes(r) != retries+1 || r.Counted() != retries+1 {
				t.Errorf("%s: %d failed attempts, %d of them crashes, state %q", id, r.Counted(), crashes(r), r.State)
			}
			if posts := len(e.posts(t, id)); posts > retries+3 {
				t.Errorf("%s was posted %d times, more than %d", id, posts, retries+3)
			}
		}
	})
}

// inOrder checks that no message of a lane is posted once a later one was.
func inOrder(t *testing.T, e *supervised, lanes int) {
	t.Helper()
	newest := map[int]int{}
	for _, post := range e.ledger(t) {
		if lanes == 0 || post.what != "begin" {
			continue
		}
		var number int
		need(t, errOf(fmt.Sscanf(post.id, "m%d", &number)))
		if lane := number % lanes; number < newest[lane] {
			t.Errorf("%s was posted after m%03d", post.id, newest[lane])
		} else {
			newest[lane] = number
		}
	}
}

func ofPrefix(t *testing.T, prefix string) *counter.Counter {
	t.Helper()
	return counterOn(t, patientURL(t), prefix)
}

// TestPushOutage has no endpoint at first, and none for a while later: nothing is counted. A deploy of consume
// meanwhile changes nothing.
func TestPushOutage(t *testing.T) {
	t.Parallel()
	strikes := servertest.Program(t, "cmd/strikes")
	eachType(t, func(t *testing.T, queue string) {
		prefix := uniqueName(t, "strikes")
		c := ofPrefix(t, prefix)
		publishLanes(t, queue, 30, 1)
		address := freeAddress(t)
		p := push(t, strikes, queue, prefix, "http://"+address, "--max-retries", "1", "--concurrency", "4")
		eventually(t, "attempts that are not counted", func() bool {
			return strings.Count(p.stderr.String(), "\nnot-counted ") > 10
		})
		eventually(t, "status shows them", func() bool {
			cmd := exec.CommandContext(t.Context(), strikes, "status", queue)
			cmd.Env = p.env
			out, err := cmd.Output()
			return err == nil && strings.Contains(string(out), "their attempts are not counted") &&
				strings.Contains(string(out), "is out of reach")
		})
		terminate(t, p.process)
		p = push(t, strikes, queue, prefix, "http://"+address, "--max-retries", "1", "--concurrency", "4")
		eventually(t, "the next process tries", func() bool { return strings.Contains(p.stderr.String(), "not-counted m") })
		s := endpoint{}.superviseAt(t, address)
		eventually(t, "all are handled", func() bool { return len(s.handled(t)) == 30 })
		terminate(t, p.process)
		if dead := queueDepth(t, queue+".dlq"); dead != 0 {
			t.Errorf("%d dead letters", dead)
		}
		for i := range 30 {
			records, err := c.Admin().Get(t.Context(), "/", queue, fmt.Sprintf("m%03d", i))
			if err != nil || len(records) > 0 && records[0].Counted() != 0 {
				t.Errorf("m%03d: %+v, %v", i, records, err)
			}
		}
	})
}

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

// An example of docs/push.md: the name and the text of a file, and the commands that use it.
var pushExample = regexp.MustCompile("(?s)`(\\w+\\.\\w+)`[^`]*:\n\n```(\\w+)\n(.*?)```\n\n```sh\n(.*?)```")

// TestPushDocument runs the endpoints of docs/push.md, each with its commands, on the same six orders.
func TestPushDocument(t *testing.T) {
	servertest.Long(t)
	t.Parallel()
	strikes := servertest.Program(t, "cmd/strikes")
	examples := pushExample.FindAllStringSubmatch(read(t, "../docs/push.md"), -1)
	if len(examples) != 3 {
		t.Fatalf("%d examples", len(examples))
	}
	for _, m := range examples {
		file, language, text, commands := m[1], m[2], m[3], m[4]
		t.Run(language, func(t *testing.T) {
			program := map[string]string{"python": "python3", "javascript": "node", "java": "java"}[language]
			if _, err := exec.LookPath(program); err != nil {
				if language == "java" {
					t.Skipf("%s is not installed", program)
				}
				t.Fatal(err)
			}
			dir := t.TempDir()
			need(t, os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600))
			sixOrders(t, dir, strikes, commands)
		})
	}
}

// sixOrders publishes six orders and runs the commands of a document: order 4 fails, order 5 is rejected.
func sixOrders(t *testing.T, dir, strikes, commands string) {
	t.Helper()
	queue, prefix := declared(t, topology.Quorum), uniqueName(t, "strikes")
	for i := range 6 {
		body := fmt.Sprint("order ", i+1)
		publishAll(t, publisher.Message{Key: queue, Publishing: amqp.Publishing{MessageId: body, Body: []byte(body)}})
	}
	_, port, _ := strings.Cut(freeAddress(t), ":")
	commands = strings.NewReplacer("8000", port, "consume orders", "consume "+queue).Replace(commands)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", commands+"code=$?; kill $(jobs -p); wait; exit $code\n")
	cmd.Dir, cmd.WaitDelay = dir, time.Second
	cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(strikes)+":"+os.Getenv("PATH"), "AMQP_URL="+brokerURL(t),
		"REDIS_URL="+redisURL(t),
		"STRIKES_MANAGEMENT_URL="+managementURL(t), "STRIKES_PREFIX="+prefix, "STRIKES_EXIT_WHEN_IDLE=3s")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	c := ofPrefix(t, prefix)
	for id, want := range map[string]struct {
		failures int
		cause    counter.Cause
		reason   string
	}{
		"order 4": {3, counter.CauseFailed, "HTTP 500 Internal Server Error: no stock"},
		"order 5": {1, counter.CauseRejected, "HTTP 422 Unprocessable Entity: no such customer"},
	} {
		if r := one(t, c, queue, id); r.State != counter.StateDeadLetter || r.Failures != want.failures ||
			r.Cause != want.cause || r.Reason != want.reason {
			t.Errorf("%s: %d failures, %s, %q", id, r.Failures, r.Cause, r.Reason)
		}
	}
	if left, dead := queueDepth(t, queue), queueDepth(t, queue+".dlq"); left != 0 || dead != 2 {
		t.Errorf("%d messages are left, %d are dead letters", left, dead)
	}
}
