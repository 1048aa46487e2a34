package inbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/poll"
	"github.com/strikesmq/strikes/internal/servertest"
	"github.com/strikesmq/strikes/publisher"
	"github.com/strikesmq/strikes/topology"
)

// The size of TestKilled. A process handles at most mostBefore messages before it dies, so the messages suffice.
const (
	messages                = 2000
	kills                   = 30
	leastBefore, mostBefore = 10, 50
)

// childEnv makes the test binary a consumer process, told in JSON what to do.
const childEnv = "STRIKES_INBOX_CHILD"

// child is a consumer process. It kills itself after so many COMMITs; zero: never.
type child struct {
	Subject, Addr, Database, AMQP, Redis, Queue string

	Marks bool // it has an inbox
	Dies  int
}

// run runs the tests, or the child that a test has started.
func run(m *testing.M) int {
	spec := os.Getenv(childEnv)
	if spec == "" {
		return servertest.Run(m)
	}
	var c child
	err := json.Unmarshal([]byte(spec), &c)
	if err == nil {
		i := slices.IndexFunc(subjects, func(s Subject) bool { return s.Name == c.Subject })
		err = c.consume(subjects[i])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func (c child) consume(s Subject) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	db, err := s.Open(ctx, c.Addr, c.Database, false)
	if err != nil {
		return err
	}
	defer db.Close()
	counts, err := counter.Dial(c.Redis, nil)
	if err != nil {
		return err
	}
	defer counts.Close()
	work := func(ctx context.Context, tx Tx, d amqp.Delivery) error {
		return tx.Exec(ctx, "INSERT INTO effects (id) VALUES ('"+d.MessageId+"')")
	}
	handler := db.Plain(work)
	if c.Marks {
		handler = db.Handler(Settings{Queue: c.Queue}, work)
	}
	var commits atomic.Int64
	orders := consumer.Consumer{
		Queue: c.Queue, Counter: counts, MaxRetries: 900, Concurrency: 4, Prefetch: 30,
		Backoff: func(int) time.Duration { return 10 * time.Millisecond },
		Handler: func(ctx context.Context, d amqp.Delivery) error {
			err := handler(ctx, d)
			if err == nil && commits.Add(1) == int64(c.Dies) { // the message is not acked yet
				return syscall.Kill(os.Getpid(), syscall.SIGKILL)
			}
			return err
		},
	}
	return orders.Run(ctx, consumer.Dialer(c.AMQP, amqp.Config{}))
}

// TestKilled kills consumers between the COMMIT and the ack of a message. With an inbox each message has one effect.
// Without one some have two, or this test could not fail.
func TestKilled(t *testing.T) {
	servertest.Long(t)
	for _, s := range []Subject{pgx, sqlPgx, mariaDB} {
		s.killed(t)
	}
}

func (s Subject) killed(t *testing.T) {
	for _, marks := range []bool{true, false} {
		t.Run(fmt.Sprintf("%s, marks %v", s.Name, marks), func(t *testing.T) {
			t.Parallel()
			b := newBench(t, s, s.Server(t))
			c := child{
				Subject: s.Name, Addr: b.addr, Database: b.name, AMQP: servertest.BrokerURL(t),
				Redis: servertest.PatientStoreURL(t), Queue: "inbox." + uuid.NewString(), Marks: marks,
			}
			c.publish(t)
			for range kills {
				c.Dies = leastBefore + rand.IntN(mostBefore-leastBefore+1)
				if got := c.run(t, nil); got != "signal: killed" {
					t.Fatalf("a consumer that was to kill itself ended with %q", got)
				}
			}
			count := func(of string) int {
				n, err := b.db.Int(t.Context(), "SELECT count("+of+") FROM effects")
				b.must(t, err)
				return n
			}
			c.Dies = 0
			end := c.run(t, func() error {
				if n := count("DISTINCT id"); n < messages {
					return fmt.Errorf("%d of %d messages have an effect", n, messages)
				}
				return nil
			})
			if end != "exit status 0" {
				t.Errorf("the last consumer ended with %q", end)
			}
			effects, distinct := count("*"), count("DISTINCT id")
			t.Logf("%s, marks %v: %d messages, %d kills: %d effects, %d twice, %d missing", s.Name, marks, messages, kills,
				effects, effects-distinct, messages-distinct)
			if twice := effects - distinct; marks != (twice == 0) || distinct != messages {
				t.Errorf("%d effects of %d messages", effects, distinct)
			}
		})
	}
}

// publish declares the queue and fills it.
func (c child) publish(t *testing.T) {
	t.Helper()
	servertest.DeleteLater(c.Queue)
	dial := consumer.Dialer(c.AMQP, amqp.Config{})
	conn, err := dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := topology.Declare(t.Context(), conn, topology.Spec{Queue: c.Queue}); err != nil {
		t.Fatal(err)
	}
	pub, err := publisher.New(dial, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer pub.Close()
	for i := range messages {
		if _, err := pub.Publish(t.Context(), "", c.Queue, amqp.Publishing{MessageId: strconv.Itoa(i)}); err != nil {
			t.Fatal(err)
		}
	}
}

// run runs a consumer process to its end, and returns how it ended. If done is given, the process is told to end as
// soon as done has no error.
func (c child) run(t *testing.T, done func() error) string {
	t.Helper()
	spec, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0]) //nolint:gosec // this test
	cmd.Env = append(os.Environ(), childEnv+"="+string(spec), "GORACE=atexit_sleep_ms=0")
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if done != nil {
		err := poll.Until(ctx, 5*time.Minute, "the last messages", done)
		if err := errors.Join(err, cmd.Process.Signal(syscall.SIGTERM)); err != nil {
			t.Error(err)
		}
	}
	if err := cmd.Wait(); err != nil {
		return err.Error()
	}
	return "exit status 0"
}
