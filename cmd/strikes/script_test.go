package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/redis/go-redis/v9"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/connect"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/internal/servertest"
)

// TestAlone runs the scripts that need no server. $CLOSED is an address of which nothing answers, $FIFTY a name of so
// many bytes.
func TestAlone(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:  "testdata/alone",
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits},
		Setup: func(e *testscript.Env) error {
			e.Setenv("CLOSED", "127.0.0.1:1")
			e.Setenv("FIFTY", strings.Repeat("q", 50))
			e.Setenv("NOTUTF8", "\xff")
			e.Setenv("GORACE", quickExit)
			return nil
		},
	})
}

// TestServers runs the scripts that need a broker and a store. $QUEUE is a name of the script's own; it, QUEUE.dlq and
// QUEUE.dlx are deleted in the end. $MANAGEMENT is the broker's management API, which a script must name. $NODB
// is the store's URL with a database that it does not have. $ESCAPE is a sequence that clears a terminal.
func TestServers(t *testing.T) {
	servertest.Long(t)
	broker, store, management := throughProxy(t, brokerURL(t)), storeURL(t), managementURL(t)
	testscript.Run(t, testscript.Params{
		Dir: "testdata/servers",
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits, "classic": classic, "astray": astray,
			"doomed": doomed, "sharing": sharing, "depth": depth, "until": until, "overwrite": overwrite, "old": old,
			"nameless": nameless},
		Setup: func(e *testscript.Env) error {
			queue := "cli." + uuid.NewString()
			e.Setenv("GORACE", quickExit)
			e.Setenv("AMQP_URL", broker)
			e.Setenv("REDIS_URL", store)
			e.Setenv("QUEUE", queue)
			e.Setenv("MANAGEMENT", management)
			e.Setenv("CLOSED", "127.0.0.1:1")
			e.Setenv("STRIKES_PREFIX", queue)
			e.Setenv("NODB", ofDatabase(t, store, "9999"))
			e.Setenv("POSTGRES", "postgres://postgres@"+servertest.PostgreSQL(t)+"/postgres?sslmode=disable")
			e.Setenv("MARIADB", "mysql://root@"+servertest.MariaDB(t)+"/strikes")
			e.Setenv("NOPGDB", ofDatabase(t, e.Getenv("POSTGRES"), "absent"))
			e.Setenv("ESCAPE", "\x1b[2J")
			cleanUp(t, queue)
			return nil
		},
	})
}

// ofDatabase is the URL of another database of a store.
func ofDatabase(t *testing.T, store, db string) string {
	t.Helper()
	u, err := url.Parse(store)
	need(t, err)
	u.Path = "/" + db
	return u.String()
}

// exits is a script's command: exits CODE PROGRAM ARGS… runs the program, which must exit with that code.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM ARGS…")
	}
	code, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		if _, scanErr := fmt.Sscanf(err.Error(), "exit status %d", &got); scanErr != nil {
			ts.Fatalf("%v", err)
		}
	}
	if got != code {
		ts.Fatalf("exit code %d, want %d", got, code)
	}
}

// until is a script's command: until PROGRAM ARGS… runs the program again and again until it exits 0.
func until(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: until PROGRAM ARGS…")
	}
	var err error
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if err = ts.Exec(args[0], args[1:]...); err == nil {
			return
		}
	}
	ts.Fatalf("%q: %v", args, err)
}

// depth is a script's command: depth QUEUE N waits until so many messages are ready in the queue.
func depth(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[1])
	ts.Check(err)
	got := -1
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		got, err = readyIn(ts.Getenv("AMQP_URL"), args[0])
		ts.Check(err)
		if got == want {
			return
		}
	}
	ts.Fatalf("%d messages in %s, want %d", got, args[0], want)
}

// record is the store of a script, and the key of the first generation of a message.
func record(ts *testscript.TestScript, queue, id string) (store *redis.Client, key string) {
	opts, err := redis.ParseURL(ts.Getenv("REDIS_URL"))
	ts.Check(err)
	store = redis.NewClient(opts)
	ts.Defer(func() { _ = store.Close() })
	sum := sha256.Sum256([]byte(id))
	return store, fmt.Sprintf("%s:{%%2F/%s}:r:%x:0", ts.Getenv("STRIKES_PREFIX"), queue, sum[:16])
}

// overwrite is a script's command: overwrite QUEUE ID string|hash puts an invalid record at the key of one; overwrite
// QUEUE limit puts an invalid limit at the key of that.
func overwrite(ts *testscript.TestScript, _ bool, args []string) {
	ctx := context.Background()
	store, key := record(ts, args[0], args[1])
	if args[1] == "limit" {
		prefix, _, _ := strings.Cut(key, ":r:")
		ts.Check(store.Set(ctx, prefix+":limit", "no limit", 0).Err())
		return
	}
	ts.Check(store.Del(ctx, key).Err())
	if args[2] == "hash" {
		ts.Check(store.HSet(ctx, key, "field", "value").Err())
		return
	}
	ts.Check(store.Set(ctx, key, "no record", 0).Err())
}

// old is a script's command: old QUEUE ID… makes the last failures of messages an hour older.
func old(ts *testscript.TestScript, _ bool, args []string) {
	ctx := context.Background()
	for _, id := range args[1:] {
		store, key := record(ts, args[0], id)
		kept, err := store.Get(ctx, key).Result()
		if errors.Is(err, redis.Nil) { // its failure was not counted
			continue
		}
		ts.Check(err)
		words := strings.Split(kept, " ")
		for _, at := range []int{7, 9} { // when the next attempt is due, and the first failure
			ms, err := strconv.ParseInt(words[at], 10, 64)
			ts.Check(err)
			if ms > 0 { // not so in the record of a probe, if no failure of its message was counted
				words[at] = strconv.FormatInt(ms-time.Hour.Milliseconds(), 10)
			}
		}
		// a record of a probe may be gone meanwhile
		ts.Check(store.SetXX(ctx, key, strings.Join(words, " "), redis.KeepTTL).Err())
	}
}

// onChannel calls f with a channel to the script's broker.
func onChannel(ts *testscript.TestScript, f func(*amqp.Channel) error) {
	b, err := connect.NewBroker(ts.Getenv("AMQP_URL"), "test", "--amqp-url")
	ts.Check(err)
	ts.Check(b.With(context.Background(), func(conn *amqp.Connection) error {
		return broker.OnChannel(context.Background(), conn, f)
	}))
}

// classic is a script's command: classic QUEUE declares a classic dead-letter queue, as strikes declare does not.
// Everybody may look into it.
func classic(ts *testscript.TestScript, _ bool, args []string) {
	kind := amqp.Table{"x-queue-type": "classic"}
	onChannel(ts, func(ch *amqp.Channel) error { return deadLettering(ch, args[0], args[0]+".dlq", kind) })
}

// astray is a script's command: astray QUEUE declares a queue whose dead letters land in QUEUE.dead.
func astray(ts *testscript.TestScript, _ bool, args []string) {
	expires := amqp.Table{"x-expires": 600_000}
	onChannel(ts, func(ch *amqp.Channel) error { return deadLettering(ch, args[0], args[0]+".dead", expires) })
}

// doomed is a script's command: doomed QUEUE [EXPIRES] declares a queue that the broker deletes without consumers.
func doomed(ts *testscript.TestScript, _ bool, args []string) {
	expires := amqp.Table{}
	if len(args) > 1 {
		ms, err := strconv.Atoi(args[1])
		ts.Check(err)
		expires["x-expires"] = ms
	}
	onChannel(ts, func(ch *amqp.Channel) error {
		_, err := ch.QueueDeclare(args[0], true, len(args) == 1, false, false, expires)
		return err
	})
	ts.Defer(func() {
		onChannel(ts, func(ch *amqp.Channel) error {
			_, err := ch.QueueDelete(args[0], false, false, false)
			return err
		})
	})
}

// deadLettering declares a classic queue whose dead letters land in another.
func deadLettering(ch *amqp.Channel, queue, dead string, ofDead amqp.Table) error {
	exchange := queue + ".dlx"
	errExchange := ch.ExchangeDeclare(exchange, "fanout", true, false, false, false, nil)
	_, errDead := ch.QueueDeclare(dead, true, false, false, false, ofDead)
	errBind := ch.QueueBind(dead, "", exchange, false, nil)
	_, errQueue := ch.QueueDeclare(queue, true, false, false, false, amqp.Table{"x-queue-type": "classic",
		"x-dead-letter-exchange": exchange})
	return errors.Join(errExchange, errDead, errBind, errQueue)
}

// nameless is a script's command: nameless QUEUE BODY… publishes messages that have no id, as strikes publish does
// not.
func nameless(ts *testscript.TestScript, _ bool, args []string) {
	onChannel(ts, func(ch *amqp.Channel) error {
		err := ch.Confirm(false)
		for _, body := range args[1:] {
			if err == nil {
				_, err = ch.PublishWithDeferredConfirm("", args[0], false, false, amqp.Publishing{Body: []byte(body)})
			}
		}
		if err == nil { // an unconfirmed message may be lost when its connection closes
			depth(ts, false, []string{args[0], strconv.Itoa(len(args) - 1)})
		}
		return err
	})
}

// sharing is a script's command: sharing OTHER QUEUE declares OTHER, whose dead letters go where those of QUEUE go.
func sharing(ts *testscript.TestScript, _ bool, args []string) {
	onChannel(ts, func(ch *amqp.Channel) error {
		_, err := ch.QueueDeclare(args[0], true, false, false, false, amqp.Table{"x-queue-type": "quorum",
			"x-single-active-consumer": true, "x-dead-letter-exchange": args[1] + ".dlx", "x-delivery-limit": 1000})
		return err
	})
}

func readyIn(url, queue string) (n int, err error) {
	b, err := connect.NewBroker(url, "test", "--amqp-url")
	if err != nil {
		return 0, err
	}
	err = b.With(context.Background(), func(conn *amqp.Connection) error {
		return broker.OnChannel(context.Background(), conn, func(ch *amqp.Channel) error {
			q, err := broker.Passive(ch, queue)
			n = q.Messages
			return err
		})
	})
	return n, err
}

// cleanUp deletes the queue's keys of the store when the test ends, and has DeleteLater delete the queue.
func cleanUp(t testing.TB, queue string) {
	servertest.DeleteLater(t, queue)
	t.Cleanup(func() {
		store := redisOf(t, storeURL(t))
		defer store.Close()
		keys, err := store.Keys(context.Background(), queue+":*").Result()
		if err == nil && len(keys) > 0 {
			err = store.Del(context.Background(), keys...).Err()
		}
		if err != nil {
			t.Errorf("cleaning up: %v", err)
		}
	})
}

// redisOf is a client of the Redis at a URL. The caller closes it.
func redisOf(t testing.TB, url string) *redis.Client {
	t.Helper()
	opts, err := redis.ParseURL(url)
	need(t, err)
	return redis.NewClient(opts)
}

// strikesOn returns a command line of strikes on the shared servers.
func strikesOn(t *testing.T, queue string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("strikes", args...)
	cmd.Env = append(os.Environ(), "AMQP_URL="+brokerURL(t), "REDIS_URL="+storeURL(t), "STRIKES_PREFIX="+queue,
		"STRIKES_MANAGEMENT_URL=")
	return cmd
}

// newQueue names a queue of a test. The queue, those that declare makes with it, and its records go when the test ends.
func newQueue(t *testing.T) string {
	t.Helper()
	queue := "cli." + uuid.NewString()
	cleanUp(t, queue)
	return queue
}

// declaredQueue makes one.
func declaredQueue(t *testing.T) string {
	t.Helper()
	queue := newQueue(t)
	mustOutput(t, strikesOn(t, queue, "declare", queue))
	return queue
}

// publishLines publishes a message a line.
func publishLines(t *testing.T, queue, lines string, flags ...string) {
	t.Helper()
	cmd := strikesOn(t, queue, append([]string{"publish", queue}, flags...)...)
	cmd.Stdin = strings.NewReader(lines)
	mustOutput(t, cmd)
}

// storeOf opens the records of a queue.
func storeOf(t *testing.T, url, queue string) *counter.Counter {
	t.Helper()
	store, err := counter.Dial(servertest.Patient(t, url), &counter.Options{Prefix: queue})
	need(t, err)
	t.Cleanup(func() { _ = store.Close() })
	return store
}

// failOnce counts a failure of a message, whose queue there need not be.
func failOnce(t *testing.T, url, queue, id string) {
	t.Helper()
	a := counter.Attempt{Message: counter.Message{VHost: "/", Queue: queue, ID: id}, Token: "a", Consumer: "test"}
	_, err := storeOf(t, url, queue).Fail(t.Context(), a, counter.Failure{Limit: 4, Reason: "boom"})
	need(t, err)
}

// withChannel calls f with a channel to the broker.
func withChannel(t *testing.T, f func(*amqp.Channel) error) {
	t.Helper()
	b, err := connect.NewBroker(brokerURL(t), "test", "--amqp-url")
	need(t, err)
	need(t, b.With(t.Context(), func(conn *amqp.Connection) error { return broker.OnChannel(t.Context(), conn, f) }))
}

// called runs strikes in this process, without a terminal.
func called(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs output
	code = run(t.Context(), cli.Streams{In: strings.NewReader(""), Out: &out, Err: &errs},
		append([]string{"strikes"}, args...))
	return code, out.String(), errs.String()
}

// ended runs a command to its end, and returns all that it printed.
func ended(t *testing.T, cmd *exec.Cmd) (code int, printed string) {
	t.Helper()
	out, err := cmd.CombinedOutput()
	if err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

func mustOutput(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%q: %v\n%s", cmd.Args, err, &stderr)
	}
	return string(out)
}
