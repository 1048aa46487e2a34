package integration

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/integration/internal/fleet"
	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/internal/proctest"
	"github.com/strikesmq/strikes/internal/proxy"
	"github.com/strikesmq/strikes/internal/servertest"
)

func TestMain(m *testing.M) { os.Exit(servertest.Run(m)) }

// The servers that all tests of this package share.
var (
	brokerURL     = servertest.BrokerURL
	managementURL = servertest.ManagementURL
	redisURL      = servertest.StoreURL
)

// patientURL is redisURL for a test that is not about a slow store.
func patientURL(t testing.TB) string { return servertest.Patient(t, redisURL(t)) }

// Servers for one test alone, to be stopped and killed at will.
var (
	privateBroker = servertest.Broker
	privateStore  = servertest.Store
)

var deleteLater = servertest.DeleteLater

var need = servertest.Need

// errOf is the error of a call whose result the test does not need.
func errOf[T any](_ T, err error) error { return err }

// private starts a server for this test alone.
func private[S interface{ Close() error }](t testing.TB, start func(context.Context) (S, error)) S {
	t.Helper()
	return servertest.Own(t, func(ctx context.Context, _ struct{}) (S, error) { return start(ctx) }, struct{}{})
}

// proxied returns a proxy of a server, which ends with the test, and the server's URL through it.
func proxied(t testing.TB, server string) (*proxy.Proxy, string) {
	t.Helper()
	u, err := url.Parse(server)
	need(t, err)
	p, err := proxy.New(context.WithoutCancel(t.Context()), u.Host)
	need(t, err)
	t.Cleanup(p.Close)
	u.Host = p.Addr()
	return p, u.String()
}

// dialer returns a dial function for Run and publisher.New. The caller closes the connections.
func dialer(t testing.TB) func(context.Context) (*amqp.Connection, error) {
	t.Helper()
	return consumer.Dialer(brokerURL(t), amqp.Config{})
}

// dialBroker's connection is closed when the test ends.
func dialBroker(t testing.TB) *amqp.Connection {
	t.Helper()
	conn, err := dialer(t)(t.Context())
	need(t, err)
	t.Cleanup(func() {
		if err := conn.Close(); err != nil && !errors.Is(err, amqp.ErrClosed) {
			t.Errorf("closing the connection: %v", err)
		}
	})
	return conn
}

// runConsumer runs a consumer until the function that it returns is called, or the test ends. It may end with some
// errors.
func runConsumer(t testing.TB, c consumer.Consumer, dial func(context.Context) (*amqp.Connection, error),
	may ...error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx, dial) }()
	stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-ended:
			if err != nil && !slices.ContainsFunc(may, func(one error) bool { return errors.Is(err, one) }) {
				t.Errorf("Run: %v", err)
			}
		case <-time.After(time.Minute):
			t.Error("Run did not return")
		}
	})
	t.Cleanup(stop)
	return stop
}

func brokerVersion(t testing.TB) broker.Version {
	t.Helper()
	return broker.VersionOf(dialBroker(t))
}

// uniqueName is for a queue or exchange: no other test, nor another run on the
// same broker, has it.
func uniqueName(t testing.TB, prefix string) string {
	t.Helper()
	return prefix + "." + uuid.NewString()
}

// onChannel runs f on a channel and a connection of its own.
func onChannel(dial func(context.Context) (*amqp.Connection, error), f func(*amqp.Channel) error) (err error) {
	conn, err := dial(context.Background())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	ch, err := conn.Channel()
	if err != nil {
		return err
	}
	return f(ch)
}

// queueState counts the consumers of a queue, and the messages ready for delivery; unacked ones are not.
func queueState(dial func(context.Context) (*amqp.Connection, error), queue string) (state amqp.Queue, err error) {
	err = onChannel(dial, func(ch *amqp.Channel) (err error) {
		state, err = ch.QueueDeclarePassive(queue, false, false, false, false, nil)
		return err
	})
	return state, err
}

func queueDepth(t testing.TB, queue string) int {
	t.Helper()
	state, err := queueState(dialer(t), queue)
	if err != nil {
		t.Fatalf("depth of %q: %v", queue, err)
	}
	return state.Messages
}

// getAll takes every ready message off the queue, in order.
func getAll(t testing.TB, queue string) []amqp.Delivery {
	t.Helper()
	all, err := takeAll(dialer(t), queue)
	if err != nil {
		t.Fatalf("getting from %q: %v", queue, err)
	}
	return all
}

// takeAll is getAll. After an error it returns the messages that it took before.
func takeAll(dial func(context.Context) (*amqp.Connection, error), queue string) (all []amqp.Delivery, err error) {
	err = onChannel(dial, func(ch *amqp.Channel) error {
		for {
			d, ok, err := ch.Get(queue, true)
			if err != nil || !ok {
				return err
			}
			all = append(all, d)
		}
	})
	return all, err
}

// eventually waits for a condition, for a minute at most.
func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	proctest.Eventually(t, time.Minute, what, cond)
}

// worker is the job of a process of this test binary: the one field that is set.
type worker struct {
	Child  *child
	Lanes  *laneChild
	Member *member
	Delay  *delayWorker
	Replay *replayer
	Serve  *endpoint
}

func init() {
	fleet.Main(func(ctx context.Context, w worker) error {
		switch {
		case w.Child != nil:
			return w.Child.run(ctx)
		case w.Lanes != nil:
			return w.Lanes.run(ctx)
		case w.Member != nil:
			return w.Member.run(ctx)
		case w.Delay != nil:
			return w.Delay.run(ctx)
		case w.Replay != nil:
			return w.Replay.run(ctx)
		default:
			return w.Serve.run(ctx)
		}
	})
}

// command returns a process to start. It ends with the test at the latest.
func (w worker) command(t *testing.T) *exec.Cmd {
	t.Helper()
	cmd, stdin, err := fleet.Command(w)
	need(t, err)
	t.Cleanup(func() { _ = stdin.Close() })
	return cmd
}

// process is a consumer process that was started; ended tells how it ended.
type process struct {
	*os.Process
	ended chan error
}

// spawn starts a process, which does not outlive the test.
func (w worker) spawn(t *testing.T) process {
	t.Helper()
	return started(t, w.command(t))
}

func started(t *testing.T, cmd *exec.Cmd) process {
	t.Helper()
	need(t, cmd.Start())
	p := process{cmd.Process, make(chan error, 1)}
	reaped := make(chan struct{})
	go func() {
		defer close(reaped)
		p.ended <- cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = p.Kill() // it has ended if the test went well
		<-reaped
	})
	return p
}

// crash ends it with SIGKILL.
func (p process) crash() {
	_ = p.Kill() // it may have ended
	<-p.ended
}

// terminate stops processes as a deployment does.
func terminate(t *testing.T, all ...process) {
	t.Helper()
	for _, p := range all {
		if err := p.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
	}
	for _, p := range all {
		if err := <-p.ended; err != nil {
			t.Errorf("a consumer process ended with %v", err)
		}
	}
}

// cut makes the broker close the connections of a name, and reports whether there were any.
func cut(t *testing.T, name string) bool {
	t.Helper()
	var open []struct {
		Name       string
		Properties struct {
			Name string `json:"connection_name"`
		} `json:"client_properties"`
	}
	if err := json.Unmarshal(manage(t, http.MethodGet, "/api/connections", ""), &open); err != nil {
		t.Fatalf("connections: %v", err)
	}
	found := false
	for _, c := range open {
		if c.Properties.Name != name {
			continue
		}
		status, answer := managed(t.Context(), t, http.MethodDelete, "/api/connections/"+url.PathEscape(c.Name), "")
		switch {
		case status == http.StatusNotFound: // it ended after the list was made
		case status < http.StatusMultipleChoices:
			found = true
		default:
			t.Fatalf("closing the connection %q: %d, %s", c.Name, status, answer)
		}
	}
	return found
}

// manage makes a request of the management API, also while a test is cleaned up. It asks again after an error of the
// API's own: 3.10 has no list of the connections while one of them goes (500).
func manage(t *testing.T, method, path, body string) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for {
		status, answer := managed(ctx, t, method, path, body)
		switch {
		case status < http.StatusMultipleChoices:
			return answer
		case status < http.StatusInternalServerError || ctx.Err() != nil:
			t.Fatalf("%s %s: %d, %s", method, path, status, answer)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// userWho makes a user with these permissions until the test ends, and returns the URL with which it connects.
func userWho(t *testing.T, configure, write, read string) *url.URL {
	t.Helper()
	u, err := url.Parse(brokerURL(t))
	need(t, err)
	user := uniqueName(t, "limited")
	u.User = url.UserPassword(user, "pass")
	topoAPI(t, http.MethodPut, "users/"+user, map[string]any{"password": "pass", "tags": ""})
	t.Cleanup(func() { manage(t, http.MethodDelete, "/api/users/"+user, "") })
	topoAPI(t, http.MethodPut, "permissions/%2F/"+user,
		map[string]any{"configure": configure, "write": write, "read": read})
	return u
}

func managed(ctx context.Context, t *testing.T, method, path, body string) (int, []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, managementURL(t)+path, strings.NewReader(body))
	need(t, err)
	req.Close = true // no goroutine of an idle connection stays behind
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	need(t, err)
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatalf("%s %s: %s, %v", method, path, res.Status, err)
	}
	return res.StatusCode, answer
}
