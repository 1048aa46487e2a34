package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/connect"
	"github.com/strikesmq/strikes/internal/proctest"
	"github.com/strikesmq/strikes/internal/proxy"
	"github.com/strikesmq/strikes/internal/servers"
	"github.com/strikesmq/strikes/internal/servertest"
	"github.com/strikesmq/strikes/ops"
)

func ownStore(t *testing.T) *servers.Redis {
	t.Helper()
	return servertest.Store(t, servers.RedisOptions{})
}

func with(cmd *exec.Cmd, env ...string) *exec.Cmd {
	cmd.Env = append(cmd.Env, env...)
	return cmd
}

// TestReadOnlyStore: a user who may only read sees all, and is told that he may change nothing.
func TestReadOnlyStore(t *testing.T) {
	t.Parallel()
	store := ownStore(t)
	queue := declaredQueue(t)
	failOnce(t, store.URL, queue, "a")
	viewer := readerOf(t, store)
	for _, tc := range []struct {
		want int
		args []string
	}{
		{cli.ExitOK, []string{"status", queue}},
		{cli.ExitOK, []string{"counter", "list", queue}},
		{cli.ExitOK, []string{"counter", "get", queue, "a"}},
		{cli.ExitDenied, []string{"limit", "set", "--why", "why", queue, "--max-retries", "4"}},
		{cli.ExitDenied, []string{"limit", "set", "--why", "why", "--id", "a", "--max-retries", "5", queue}},
		{cli.ExitDenied, []string{"counter", "reset", "--yes", "--why", "why", queue, "a"}},
	} {
		code, stderr := ended(t, with(strikesOn(t, queue, tc.args...), viewer))
		if code != tc.want || strings.Contains(stderr, "hush") {
			t.Errorf("%q: exit code %d, want %d: %s", tc.args, code, tc.want, stderr)
		}
	}
	if out := mustOutput(t, with(strikesOn(t, queue, "status", queue), viewer)); !strings.Contains(out,
		"attempt 2 of 4") {
		t.Errorf("status by the viewer:\n%s", out)
	}
}

// readerOf adds a user who may only read, and returns the environment that makes a command that user's.
func readerOf(t *testing.T, store *servers.Redis) string {
	t.Helper()
	rdb := redisOf(t, store.URL)
	defer rdb.Close()
	need(t, rdb.Do(t.Context(), "ACL", "SETUSER", "viewer", "on", ">hush", "~*", "+@read",
		"+@connection", "+evalsha", "+eval", "+time").Err())
	return "REDIS_URL=" + strings.Replace(store.URL, "redis://", "redis://viewer:hush@", 1)
}

// TestTakenIsBestEffort: a store that cannot note replayed or dropped messages stops neither, and is reported once.
func TestTakenIsBestEffort(t *testing.T) {
	servertest.Long(t)
	t.Parallel()
	store, queue, kept := ownStore(t), declaredQueue(t), filepath.Join(t.TempDir(), "kept")
	own, viewer := "REDIS_URL="+store.URL, readerOf(t, store)
	publishLines(t, queue, "1\n2\n3\n")
	mustOutput(t, with(strikesOn(t, queue, "consume", "--max-retries", "0", "--exit-when-idle", "500ms", queue, "--",
		"false"), own))
	for _, args := range [][]string{
		{"replay", "--max", "2", "--watch", "700ms"},
		{"drop", "--to", kept},
	} {
		args = append(append([]string{"dead"}, args...), "--all", "--yes", "--force", queue)
		code, stderr := ended(t, with(strikesOn(t, queue, args...), viewer))
		if code != cli.ExitOK || strings.Count(stderr,
			"the store may not have recorded every message taken off queue") != 1 || strings.Contains(stderr, "hush") {
			t.Errorf("%q: exit code %d: %s", args, code, stderr)
		}
	}
	// The management API may not see the last acks of a channel that closes: it says how many were taken at least.
	var s ops.Status
	defer func() {
		if t.Failed() {
			t.Log(s.Dead.Holding())
		}
	}()
	proctest.Eventually(t, 4*ops.Arriving, "a status in which three dead letters are missing, or were taken as the "+
		"management API knows", func() bool {
		s = ops.Status{}
		need(t, json.Unmarshal([]byte(mustOutput(t, with(strikesOn(t, queue, "status", "--json", queue), own))), &s))
		return s.Dead.Holds != nil && *s.Dead.Holds == 0 && s.Dead.Missing+s.Dead.TakenByOthers() == 3
	})
}

// TestStatusDuringReplay: letters that are on their way are not called missing, however old the facts about each are.
func TestStatusDuringReplay(t *testing.T) {
	t.Parallel()
	store, queue := ownStore(t), declaredQueue(t)
	own := "REDIS_URL=" + store.URL
	publishLines(t, queue, strings.Repeat("order\n", 300))
	look := func() (s ops.Status) {
		t.Helper()
		out := mustOutput(t, with(strikesOn(t, queue, "status", "--json", queue), own))
		need(t, json.Unmarshal([]byte(out), &s))
		if s.Dead.Missing > 0 {
			t.Errorf("missing: %s", s.Dead.Holding())
		}
		return s
	}
	consume := with(strikesOn(t, queue, "consume", "--max-retries", "0", "--concurrency", "8", "--exit-when-idle",
		"500ms", queue, "--", "false"), own)
	need(t, consume.Start())
	proctest.Eventually(t, time.Minute, "all dead-lettered and at rest", func() bool {
		s := look()
		return s.Dead.Count == 300 && s.Dead.Unclear == 0 && s.Time.Sub(s.Dead.Since) > ops.Arriving
	})
	need(t, consume.Wait())
	replay := with(strikesOn(t, queue, "dead", "replay", "--all", "--yes", "--force", "--rate", "150", "--watch",
		"0s", queue), own)
	need(t, replay.Start())
	for range 8 {
		look()
	}
	need(t, replay.Wait())
	if s := look(); s.Dead.Removed != 300 || *s.Dead.Holds != 0 {
		t.Errorf("after it: %+v", s.Dead)
	}
}

// TestStatusWhenServersAreAway: status exits with 69, whether a server hangs or is dead.
func TestStatusWhenServersAreAway(t *testing.T) {
	servertest.Long(t)
	t.Parallel()
	store := ownStore(t)
	broker := servertest.Broker(t, servers.RabbitMQOptions{})
	env := []string{"AMQP_URL=" + broker.URL, "REDIS_URL=" + store.URL}
	mustOutput(t, with(strikesOn(t, "q", "declare", "q"), env...))
	status := func() *exec.Cmd { return with(strikesOn(t, "q", "status", "q"), env...) }

	for _, away := range []struct {
		server string
		group  func() int
		pause  func() error
		resume func() error
		stop   func() error
		start  func(context.Context) error
		says   string
	}{
		{"store", store.Group, store.Pause, store.Resume, store.Kill, store.Start, "store "},
		{"broker", broker.Group, broker.Pause, broker.Resume, broker.Kill, broker.Start, "is out of reach"},
	} {
		for how, fault := range map[string][2]func() error{
			"hangs":   {away.pause, away.resume},
			"is dead": {away.stop, func() error { return away.start(t.Context()) }},
		} {
			mustOutput(t, status())
			need(t, fault[0]())
			if how == "hangs" { // beside load some threads run on for as long as a status takes
				proctest.Eventually(t, time.Minute, "every thread stops", func() bool { return stopped(t, away.group()) })
			}
			code, stderr := ended(t, status())
			if code != cli.ExitUnreachable || !strings.Contains(stderr, away.says) {
				t.Errorf("the %s %s: exit code %d: %s", away.server, how, code, stderr)
			}
			need(t, fault[1]())
		}
	}
	mustOutput(t, status())
}

// stopped reports whether SIGSTOP has reached every thread of a process group. Only Linux shows them.
func stopped(t *testing.T, group int) bool {
	t.Helper()
	threads, err := filepath.Glob("/proc/[0-9]*/task/[0-9]*/stat")
	need(t, err)
	for _, name := range threads {
		stat, _ := os.ReadFile(name) // the thread may have ended
		_, state, _ := strings.Cut(string(stat), ") ")
		if f := strings.Fields(state); len(f) > 2 && f[2] == strconv.Itoa(group) && f[0] != "T" {
			return false
		}
	}
	return true
}

// TestStatusInterrupted in the middle of a question to a broker that does not answer.
func TestStatusInterrupted(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	need(t, err)
	t.Cleanup(func() { _ = silent.Close() })
	cmd := with(strikesOn(t, "q", "status", "q"), "AMQP_URL=amqp://"+silent.Addr().String())
	need(t, cmd.Start())
	conn, err := silent.Accept()
	need(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Error(err)
	}
	began := time.Now()
	_ = cmd.Wait()
	if code, took := cmd.ProcessState.ExitCode(), time.Since(began); code != cli.ExitInterrupted || took > 5*time.Second {
		t.Errorf("it ended %v after an interrupt with exit code %d", took, code)
	}
}

// TestStatusOfASuspect follows a message that kills two consumers and hangs a third, where it runs alone.
func TestStatusOfASuspect(t *testing.T) {
	servertest.Long(t)
	t.Parallel()
	queue := declaredQueue(t)
	publishLines(t, queue, `{"id":"killer","body":"x"}`+"\n", "--ndjson")
	deaths := filepath.Join(t.TempDir(), "deaths")
	const kill = `echo >>"$DEATHS"; test $(wc -l <"$DEATHS") -gt 2 && sleep 60; kill -9 $PPID`
	consume := func() *exec.Cmd {
		cmd := with(strikesOn(t, queue, "consume", queue, "--", "sh", "-c", kill), "DEATHS="+deaths)
		need(t, cmd.Start())
		t.Cleanup(func() { _ = cmd.Process.Kill() })
		return cmd
	}
	for range 2 {
		if err := consume().Wait(); err == nil {
			t.Fatal("the consumer lives")
		}
	}
	status := func() string { return mustOutput(t, strikesOn(t, queue, "status", queue)) }
	proctest.Eventually(t, time.Minute, "the killer left running, without a consumer", func() bool {
		return strings.Contains(status(), "attempt 1 of 4, left running: its process died, or was cut off")
	})
	last := consume()
	proctest.Eventually(t, time.Minute, "the killer running isolated", func() bool {
		return strings.Contains(status(), "  killer\n      attempt 1 of 4, running isolated for ") &&
			strings.Contains(status(), ", suspect\n      with ")
	})
	for range 2 { // the second one kills the command
		need(t, last.Process.Signal(os.Interrupt))
	}
	_ = last.Wait() // 130
}

// TestStatusWithManagement: the facts of the API about the queue and about its dead-letter queue are not mixed up. The
// API need not be named if it is in its usual place.
func TestStatusWithManagement(t *testing.T) {
	t.Parallel()
	queue := declaredQueue(t)
	direct, err := connect.NewBroker(brokerURL(t), "test", "--amqp-url")
	need(t, err)
	conn, err := direct.Dial(t.Context())
	need(t, err)
	cluster := conn.Properties["cluster_name"]
	connect.Close(conn)
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.EscapedPath() {
		case "/api/cluster-name":
			fmt.Fprintf(w, `{"name":%q}`, cluster)
		case "/api/queues/%2F/" + queue:
			fmt.Fprint(w, `{"name":"q","messages_unacknowledged":7,"message_stats":{"ack":100,"ack_details":{"rate":2.5}}}`)
		case "/api/queues/%2F/" + queue + ".dlq":
			fmt.Fprint(w, `{"name":"d","messages_unacknowledged":1,"message_stats":{"ack":4,"ack_details":{"rate":9}}}`)
		default:
			fmt.Fprint(w, `{}`)
		}
	})
	elsewhere := httptest.NewServer(handler)
	defer elsewhere.Close()
	for name, tc := range map[string]struct{ amqp, api string }{
		"given":              {brokerURL(t), elsewhere.URL},
		"in its usual place": {withManagement(t, brokerURL(t), handler), ""},
	} {
		_, out, errs := called(t, "status", queue, "--json", "--amqp-url", tc.amqp, "--store-url", storeURL(t), "--prefix",
			queue, "--management-url", tc.api, "--dead-letter-queue", queue+".dlq")
		var s ops.Status
		err := json.Unmarshal([]byte(out), &s)
		if err != nil || s.Unacked == nil || s.Rates == nil || s.Dead.Taken == nil {
			t.Fatalf("%s: %s%s, %v", name, out, errs, err)
		}
		if *s.Unacked != 7 || s.Rates.Acked != 2.5 || *s.Dead.Holds != 0 || *s.Dead.Taken != 4 {
			t.Errorf("%s: unacked %d, acked %.1f/s, holds %d, taken %d", name, *s.Unacked, s.Rates.Acked, *s.Dead.Holds,
				*s.Dead.Taken)
		}
	}
}

// throughProxy returns the URL of a proxy for a broker. It has no management API at its port + 10000.
func throughProxy(t *testing.T, broker string) string {
	t.Helper()
	at, err := url.Parse(broker)
	need(t, err)
	p, err := proxy.New(t.Context(), at.Host)
	need(t, err)
	t.Cleanup(p.Close)
	at.Host = p.Addr()
	return at.String()
}

// withManagement is another way to a broker, beside which api is where a management API would be.
func withManagement(t *testing.T, broker string, api http.Handler) string {
	t.Helper()
	for range 50 { // which of the system's ports have a free one 10000 above is up to it
		way := throughProxy(t, broker)
		beside, err := url.Parse(connect.GuessManagement(way))
		if err != nil || beside.Host == "" {
			continue
		}
		l, err := net.Listen("tcp", beside.Host)
		if err != nil {
			continue
		}
		s := httptest.NewUnstartedServer(api)
		s.Listener.Close()
		s.Listener = l
		s.Start()
		t.Cleanup(s.Close)
		return way
	}
	t.Fatal("no two ports are free of which one is 10000 above the other")
	return ""
}

// TestSlowStore: an operator's command waits for a store that is too slow for a consumer, unless the URL says for how
// long.
func TestSlowStore(t *testing.T) {
	t.Parallel()
	queue := declaredQueue(t)
	failOnce(t, storeURL(t), queue, "m1")
	at, err := url.Parse(storeURL(t))
	need(t, err)
	p, err := proxy.NewStore(t.Context(), at.Host, func([]string) proxy.Treatment {
		return proxy.Treatment{Late: 400 * time.Millisecond}
	})
	need(t, err)
	t.Cleanup(p.Close)
	at.Host = p.Addr()
	for command, code := range map[string]int{
		"counter get QUEUE m1": 0, "status QUEUE": 0, "dead list QUEUE": cli.ExitNothing,
		"limit set --why why --max-retries 4 QUEUE": 0,
		"pause --why why --wait 0s QUEUE":           0, "doctor QUEUE": 0, "lane list QUEUE": cli.ExitNothing,
		"consume --exit-when-idle 1s QUEUE -- true": cli.ExitUnreachable,
	} {
		// One after the other: to a command that gets no processor, the store seems slower still.
		t.Run(command, func(t *testing.T) {
			args := strings.Fields(strings.ReplaceAll(command, "QUEUE", queue))
			if got, out := ended(t, with(strikesOn(t, queue, args...), "REDIS_URL="+at.String())); got != code {
				t.Errorf("exit code %d, want %d\n%s", got, code, out)
			}
		})
	}
	t.Run("a timeout in the URL", func(t *testing.T) {
		t.Parallel()
		brief := with(strikesOn(t, queue, "counter", "get", queue, "m1"), "REDIS_URL="+at.String()+"?read_timeout=250ms")
		if got, out := ended(t, brief); got != cli.ExitUnreachable || !strings.Contains(out, "slow") {
			t.Errorf("exit code %d\n%s", got, out)
		}
	})
}
