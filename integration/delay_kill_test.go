package integration

import (
	"bufio"
	"context"
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

	"github.com/google/go-cmp/cmp"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/counter/rules"
	"github.com/strikesmq/strikes/internal/broker"
)

// The full run: make delay
var (
	delayMessages = flag.Int("delay.messages", 40, "messages of TestDelayKilled")
	delayKills    = flag.Int("delay.kills", 1, "kills of TestDelayKilled at each of five points")
	delayWait     = flag.Duration("delay.wait", 5*time.Second,
		"delay of each message of TestDelayKilled; over 38s, leases of moves end before it")
)

// delayLimit is how many counted attempts a message gets.
const delayLimit = 4

// delayLog is the work of the processes on a message.
type delayLog struct {
	attempts       int             // all
	failed, copies map[string]bool // the tokens of those that were counted, and of those at copies
	isolated       map[string]bool // the tokens of those that began isolated and did not end: a crash each
	moved          bool
	finished       bool // a success is recorded
	byCopy         bool // that of a copy
	again          int  // attempts that should not have been
}

// readDelayLog reads the lines of delayWorkers: an event, the id of a message, and the token of the attempt. The
// processes ran one after the other, so the lines are in order.
func readDelayLog(from io.Reader) (map[string]*delayLog, error) {
	all := map[string]*delayLog{}
	lines := bufio.NewScanner(from)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		if len(words) != 3 {
			return nil, fmt.Errorf("the line %q is no event", lines.Text())
		}
		m := all[words[1]]
		if m == nil {
			m = &delayLog{failed: map[string]bool{}, copies: map[string]bool{}, isolated: map[string]bool{}}
			all[words[1]] = m
		}
		if !m.add(words[0], words[2]) {
			return nil, fmt.Errorf("the line %q is no event", lines.Text())
		}
	}
	return all, lines.Err()
}

// add reports false if it does not know the event.
func (m *delayLog) add(event, token string) bool {
	switch event {
	case "attempt": // at an original, which is handled again if its ack was lost, as without the delay queues
		m.attempts++
		m.again += btoi(m.byCopy)
	case "copy":
		m.attempts++
		m.copies[token] = true
		m.again += btoi(m.finished)
	case "isolated":
		m.isolated[token] = true
	case "failed": // a step that is repeated is written again
		m.failed[token] = true
		delete(m.isolated, token)
	case "moved":
		m.moved = true
	case "succeeded":
		m.finished = true
		delete(m.isolated, token)
		m.byCopy = m.byCopy || m.copies[token]
	default:
		return false
	}
	return true
}

// blamed reports whether processes were killed in so many isolated attempts that the message is dead-lettered. The
// store cannot tell such a kill from a crash of the message (docs/guarantees.md, Crashes).
func (m *delayLog) blamed() bool {
	return !m.finished && len(m.isolated) > 0 && len(m.failed)+len(m.isolated) >= delayLimit
}

// delayAudit counts messages.
type delayAudit struct {
	Lost    int // never finished, and not blamed
	Blamed  int
	Again   int // handled by a copy after a success, or by the original after that of a copy
	TooMany int // counted failures beyond the first, after which the handler succeeds
	Most    int // attempts at one message, those included in which a process died
	Moved   int
}

func auditDelay(log map[string]*delayLog, messages int) (a delayAudit) {
	a.Lost = messages
	for _, m := range log {
		a.Lost -= btoi(m.finished || m.blamed())
		a.Blamed += btoi(m.blamed())
		a.Again += btoi(m.again > 0)
		a.TooMany += max(0, len(m.failed)-1)
		a.Most = max(a.Most, m.attempts)
		a.Moved += btoi(m.moved)
	}
	return a
}

func TestDelayAudit(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, log string
		want      delayAudit
	}{
		{"as it should be", "attempt m a\nfailed m a\nmoved m a\nmoved m x\ncopy m b\nsucceeded m b",
			delayAudit{Most: 2, Moved: 1}},
		{"processes died in attempts", "attempt m a\nattempt m b\nfailed m b\nmoved m b\ncopy m c\ncopy m d\nsucceeded m d",
			delayAudit{Most: 4, Moved: 1}},
		{"FAIL sent twice", "attempt m a\nfailed m a\nfailed m a\nattempt m b\nsucceeded m b", delayAudit{Most: 2}},
		{"lost", "attempt m a\nfailed m a\nmoved m a", delayAudit{Lost: 1, Most: 1, Moved: 1}},
		{"never seen", "", delayAudit{Lost: 1}},
		{"two copies", "attempt m a\nfailed m a\nmoved m a\ncopy m b\nsucceeded m b\ncopy m c", delayAudit{Again: 1, Most: 3,
			Moved: 1}},
		{"the original after its copy", "attempt m a\nmoved m a\ncopy m b\nsucceeded m b\nattempt m c",
			delayAudit{Again: 1, Most: 3, Moved: 1}},
		{"a copy after the original", "attempt m a\nmoved m a\nattempt m b\nsucceeded m b\ncopy m c",
			delayAudit{Again: 1, Most: 3, Moved: 1}},
		{"the count began anew", "attempt m a\nfailed m a\nmoved m a\ncopy m b\nfailed m b\ncopy m c\nsucceeded m c",
			delayAudit{TooMany: 1, Most: 3, Moved: 1}},
		{"killed in every isolated attempt", "attempt m a\nfailed m a\nisolated m b\nisolated m c\nisolated m d",
			delayAudit{Blamed: 1, Most: 1}},
		{"killed in fewer", "attempt m a\nfailed m a\nisolated m b\nisolated m c", delayAudit{Lost: 1, Most: 1}},
		{"its ack was lost", "attempt m a\nsucceeded m a\nattempt m b\nsucceeded m b", delayAudit{Most: 2}},
	} {
		log, err := readDelayLog(strings.NewReader(tc.log))
		need(t, err)
		if diff := cmp.Diff(tc.want, auditDelay(log, 1)); diff != "" {
			t.Errorf("%s: %s", tc.name, diff)
		}
	}
}

// TestDelayKilled kills processes while they move messages. No message is lost, handled again after the success of a
// copy, or given an attempt too many. None is dead-lettered unless it is blamed. Each is moved four times, because the
// store and the delay queues work with shorter times than the consumer.
func TestDelayKilled(t *testing.T) {
	t.Parallel() // most of it is waiting
	delayQueue := *delayWait / 5
	q := newShortDelayQueue(t, delayQueue)
	w := delayWorker{
		AMQP: q.url, Redis: redisURL(t), Prefix: uniqueName(t, "delay"), Queue: q.name, Log: filepath.Join(t.TempDir(),
			"log"), Delay: *delayWait, Above: delayQueue,
	}
	ids := make([]string, *delayMessages)
	for n := range ids {
		ids[n] = fmt.Sprint("m", n)
	}
	publishIDs(t, consumer.Dialer(q.url, amqp.Config{}), q.name, ids)
	begin, deaths := time.Now(), map[string]int{}
	for n := range *delayKills {
		for _, point := range delayPoints {
			// If each process died at its first move, many more messages that run isolated meanwhile would be blamed.
			w.Point, w.After = point, int64(n%10)
			deaths[point] += btoi(w.dies(t))
		}
	}
	t.Logf("%v after %v", deaths, time.Since(begin).Round(time.Second))
	w.Point = ""
	cmd := w.start(t)
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	audit := w.audit(t)
	// a dead letter is not handled any more
	left := func() int { return audit.Lost + audit.Blamed - q.depth(q.name+".dlq") }
	for over := time.Now().Add(15 * time.Minute); left() > 0 && time.Now().Before(over); audit = w.audit(t) {
		time.Sleep(max(*delayWait/20, time.Second/4)) // of a poll
	}
	for over := time.Now().Add(time.Minute); q.held(t) > 0 && time.Now().Before(over); { // copies that are left
		time.Sleep(time.Second / 4)
	}
	audit = w.audit(t)
	dead := q.depth(q.name+".dlq") + q.depth("strikes.delay.lost")
	t.Logf("%d messages, processes killed %v; %d moved, %d lost, %d handled after their success, %d dead-lettered, %d "+
		"attempts too many, %d at most at one message; of the dead letters, %d were killed in isolated attempts",
		len(ids), deaths, audit.Moved, audit.Lost, audit.Again, dead, audit.TooMany, audit.Most, audit.Blamed)
	if audit.Lost+audit.Again+audit.TooMany > 0 || dead != audit.Blamed || audit.Moved == 0 {
		t.Fail()
	}
	for _, point := range delayPoints {
		if deaths[point] < *delayKills {
			t.Errorf("%d of %d processes died %s", deaths[point], *delayKills, point)
		}
	}
}

// held counts the messages that are ready in the queue and its delay queue.
func (q *delayQueue) held(t *testing.T) int {
	t.Helper()
	return q.depth(q.name) + q.depth("strikes.delay.1m")
}

// dies starts a worker and reports whether it killed itself.
func (w delayWorker) dies(t *testing.T) bool {
	t.Helper()
	cmd := w.start(t)
	// no message passes that point now
	over := time.AfterFunc(*delayWait+30*time.Second, func() { _ = cmd.Process.Signal(syscall.SIGTERM) })
	defer over.Stop()
	_ = cmd.Wait()
	status, _ := cmd.ProcessState.Sys().(syscall.WaitStatus)
	return status.Signaled() && status.Signal() == syscall.SIGKILL
}

func (w delayWorker) audit(t *testing.T) delayAudit {
	t.Helper()
	log, err := os.Open(w.Log)
	if errors.Is(err, os.ErrNotExist) {
		return auditDelay(nil, *delayMessages)
	}
	need(t, err)
	defer log.Close()
	all, err := readDelayLog(log)
	need(t, err)
	return auditDelay(all, *delayMessages)
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// delayPoints are where such a process kills itself.
var delayPoints = []string{"before FAIL", "after FAIL", "after the confirm", "after MOVED", "after the ack"}

// delayWorker fails the first attempt at each message. It writes a log with one line for each event: see readDelayLog.
type delayWorker struct {
	AMQP, Redis, Prefix, Queue, Log string
	Delay, Above                    time.Duration // of a failed message, and the wait that moves it, by the store's clock
	Point                           string        // empty: it lives
	After                           int64         // so many others passed the point
}

// mortal is a Counter whose process dies at a point.
type mortal struct {
	hurried
	delayWorker
	log    *os.File
	passed atomic.Int64
}

func (m *mortal) pass(point string) {
	if point == m.Point && m.passed.Add(1) > m.After {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // nothing follows
	}
}

// write is one write of the system, so a killed process leaves whole lines.
func (m *mortal) write(event, id, token string) error {
	return errOf(fmt.Fprintf(m.log, "%s %s %s\n", event, id, token))
}

// Start makes a WAIT, which may be for the lease of a move, end when the message may be due.
func (m *mortal) Start(ctx context.Context, a counter.Attempt, mode rules.Mode, limit int) (counter.Reply, error) {
	reply, err := m.hurried.Start(ctx, a, mode, limit)
	if reply.Code == rules.ReplyWait {
		reply.Wait = min(reply.Wait, m.Above)
	}
	return reply, err
}

func (m *mortal) Begun(ctx context.Context, a counter.Attempt) (counter.Reply, error) {
	_ = m.write("isolated", a.ID, a.Token) // before the store knows of it: it may take the step, and lose the reply
	return m.hurried.Begun(ctx, a)
}

func (m *mortal) Fail(ctx context.Context, a counter.Attempt, f counter.Failure) (counter.Reply, error) {
	m.pass("before FAIL")
	reply, err := m.hurried.Fail(ctx, a, f)
	if err == nil {
		err = m.write("failed", a.ID, a.Token)
	}
	m.pass("after FAIL")
	return reply, err
}

func (m *mortal) Moved(ctx context.Context, a counter.Attempt, copyNumber int64) error {
	_ = m.write("moved", a.ID, a.Token) // without it the audit asks for less
	m.pass("after the confirm")
	err := m.Counter.Moved(ctx, a, copyNumber)
	m.pass("after MOVED")
	return err
}

func (m *mortal) End(ctx context.Context, a counter.Attempt, succeeded bool) error {
	err := m.Counter.End(ctx, a, succeeded)
	if err == nil && succeeded {
		err = m.write("succeeded", a.ID, a.Token)
	}
	return err
}

func (m *mortal) Observe(_ context.Context, e consumer.Event) {
	if e.Outcome == consumer.OutcomeMove {
		m.pass("after the ack")
	}
}

// handle takes a moment, so that a process that dies leaves few moves unfinished: each holds its message for the lease.
func (m *mortal) handle(ctx context.Context, d amqp.Delivery) error {
	a, _ := consumer.AttemptFrom(ctx)
	event := "attempt"
	if d.Headers[broker.CopyHeader] != nil {
		event = "copy"
	}
	if err := m.write(event, d.MessageId, a.Token); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
	case <-time.After(10 * time.Millisecond):
	}
	if a.Number == 1 {
		return consumer.RetryAfter(errors.New("not yet"), 2*time.Minute)
	}
	return nil
}

func (w delayWorker) run(ctx context.Context) error {
	log, err := os.OpenFile(w.Log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	store, err := counter.Dial(w.Redis, &counter.Options{Prefix: w.Prefix})
	if err != nil {
		return err
	}
	m := &mortal{hurried: hurried{store, w.Delay, w.Above}, delayWorker: w, log: log}
	c := consumer.Consumer{
		Queue: w.Queue, Counter: m, Observer: m, Handler: m.handle, DelayAbove: time.Minute, MaxRetries: delayLimit - 1,
		Concurrency: 4, Prefetch: 500,
	}
	return c.Run(ctx, func(context.Context) (*amqp.Connection, error) { return amqp.Dial(w.AMQP) })
}

// start starts a worker, which is killed when the test ends.
func (w delayWorker) start(t *testing.T) *exec.Cmd {
	t.Helper()
	cmd := worker{Delay: &w}.command(t)
	need(t, cmd.Start())
	return cmd
}
