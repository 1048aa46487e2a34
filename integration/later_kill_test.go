package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/counter"
)

// The full run: go test ./integration -run TestLaterKilled -later.messages 10000 -later.kills 100 -timeout 60m
var (
	laterMessages = flag.Int("later.messages", 40, "messages of TestLaterKilled")
	laterKills    = flag.Int("later.kills", 1, "kills of TestLaterKilled at each of five points")
)

// laterEnv makes this test binary a process that delays messages, told in JSON what to do.
const laterEnv = "STRIKES_TEST_LATER"

// laterPoints are where such a process kills itself.
var laterPoints = []string{"before FAIL", "after FAIL", "after the confirm", "after MOVED", "after the ack"}

// laterRetries bounds the attempts at each message.
const laterRetries = 9

type laterWorker struct {
	AMQP, Redis, Prefix, Queue, Log string
	Point                           string // empty: it lives
	After                           int64  // so many others passed the point
}

func init() {
	if spec := os.Getenv(laterEnv); spec != "" {
		var w laterWorker
		err := json.Unmarshal([]byte(spec), &w)
		if err == nil {
			err = w.run()
		}
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// mortal is a Counter whose process dies at a point.
type mortal struct {
	*counter.Counter
	laterWorker
	passed atomic.Int64
}

func (m *mortal) pass(point string) {
	if point == m.Point && m.passed.Add(1) > m.After {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // nothing follows
	}
}

func (m *mortal) Fail(ctx context.Context, a counter.Attempt, f counter.Failure) (counter.Reply, error) {
	m.pass("before FAIL")
	reply, err := m.Counter.Fail(ctx, a, f)
	m.pass("after FAIL")
	return reply, err
}

func (m *mortal) Moved(ctx context.Context, a counter.Attempt, hop int64) error {
	m.pass("after the confirm")
	err := m.Counter.Moved(ctx, a, hop)
	m.pass("after MOVED")
	return err
}

func (m *mortal) Observe(_ context.Context, e consumer.Event) {
	if e.Outcome == consumer.OutcomeMove {
		m.pass("after the ack")
	}
}

func (w laterWorker) run() error {
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(3) // the test is gone
	}()
	log, err := os.OpenFile(w.Log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	store, err := counter.Dial(w.Redis, &counter.Options{Prefix: w.Prefix})
	if err != nil {
		return err
	}
	m := &mortal{Counter: store, laterWorker: w}
	c := consumer.Consumer{
		Queue: w.Queue, Counter: m, Observer: m, LaterAbove: time.Minute, MaxRetries: laterRetries, Concurrency: 4, Prefetch: 40,
		Handler: func(ctx context.Context, d amqp.Delivery) error {
			a, _ := consumer.AttemptFrom(ctx)
			if _, err := fmt.Fprintf(log, "attempt at %s\n", d.MessageId); err != nil {
				return err
			}
			if a.Number == 1 {
				return consumer.RetryAfter(errors.New("not yet"), 65*time.Second)
			}
			_, err := fmt.Fprintf(log, "%s\n", d.MessageId)
			return err
		},
	}
	return c.Run(context.Background(), func(context.Context) (*amqp.Connection, error) { return amqp.Dial(w.AMQP) })
}

// start starts a worker, which is killed when the test ends.
func (w laterWorker) start(t *testing.T) *exec.Cmd {
	t.Helper()
	spec, err := json.Marshal(w)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), laterEnv+"="+string(spec))
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd
}

// TestLaterKilled kills processes while they move messages. Each message is handled once, and none is dead-lettered.
func TestLaterKilled(t *testing.T) {
	t.Parallel() // most of it is waiting
	q := newLaterQueue(t)
	w := laterWorker{AMQP: q.url, Redis: redisURL(t), Prefix: uniqueName(t, "later"), Queue: q.name, Log: filepath.Join(t.TempDir(), "handled")}
	ids := make([]string, *laterMessages)
	for n := range ids {
		ids[n] = fmt.Sprint("m", n)
		q.send(ids[n], nil, 0)
	}
	deaths := 0
	for n := range *laterKills {
		for _, point := range laterPoints {
			w.Point, w.After = point, int64(n%3)
			ended := make(chan error, 1)
			cmd := w.start(t)
			go func() { ended <- cmd.Wait() }()
			select {
			case <-ended:
				deaths++
			case <-time.After(20 * time.Second): // no message passes that point now
				_ = cmd.Process.Kill()
				<-ended
			}
		}
	}
	w.Point = ""
	cmd := w.start(t)
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	handled := map[string]int{}
	finished := func() (n int) {
		for _, id := range ids {
			n += btoi(handled[id] > 0)
		}
		return n
	}
	for over := time.Now().Add(10 * time.Minute); finished() < len(ids) && time.Now().Before(over); time.Sleep(time.Second) {
		handled = w.handled(t)
	}
	time.Sleep(2 * time.Second) // for what would be handled twice
	handled = w.handled(t)
	lost, twice, most := 0, 0, 0
	for _, id := range ids {
		lost += btoi(handled[id] == 0)
		twice += btoi(handled[id] > 1)
		most = max(most, handled["attempt at "+id])
	}
	dead := q.depth(q.name+".dlq") + q.depth("strikes.later.lost")
	t.Logf("%d messages, %d processes killed at five points: %d lost, %d handled twice, %d dead-lettered, %d attempts at most", len(ids), deaths, lost, twice, dead, most)
	if lost+twice+dead > 0 || most > laterRetries+1 {
		t.Fail()
	}
}

func (w laterWorker) handled(t *testing.T) map[string]int {
	t.Helper()
	text, err := os.ReadFile(w.Log)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	out := map[string]int{}
	for line := range bytes.Lines(text) {
		out[strings.TrimSpace(string(line))]++
	}
	return out
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}
