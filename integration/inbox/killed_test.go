package inbox

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/integration/internal/fleet"
	"github.com/strikesmq/strikes/integration/internal/rig"
	"github.com/strikesmq/strikes/internal/panics"
	"github.com/strikesmq/strikes/internal/poll"
	"github.com/strikesmq/strikes/internal/servers"
	"github.com/strikesmq/strikes/internal/servertest"
	"github.com/strikesmq/strikes/publisher"
	"github.com/strikesmq/strikes/topology"
)

// The size of TestKilled.
var (
	messages = flag.Int("killed.messages", 2000, "messages of each run of TestKilled, at least 20 for each kill")
	kills    = flag.Int("killed.kills", 30, "consumers that are killed between the COMMIT and the ack")
	restarts = flag.Int("killed.restarts", 3, "how often the broker is killed and started meanwhile")
)

// child is a consumer process. It kills itself after so many COMMITs; zero: never.
type child struct {
	Subject, Addr, Database, AMQP, Store, Queue string

	Marks bool // it has an inbox
	Dies  int
}

// consume is the work of the process.
func (c child) consume(ctx context.Context) error {
	s := subjects[slices.IndexFunc(subjects, func(s Subject) bool { return s.Name == c.Subject })]
	db, err := s.Open(ctx, c.Addr, c.Database, false)
	if err != nil {
		return err
	}
	defer db.Close()
	counts, err := rig.Dial(c.Store, c.Queue)
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

// TestKilled kills consumers between the COMMIT and the ack of a message, and the broker from time to time. With an
// inbox each message has one effect, whether Redis or the database keeps the counts. Without one some have two, or this
// test could not fail. A long run:
//
//	STRIKES_LONG=1 go test ./integration/inbox -run '^TestKilled$' -timeout 1h -v -killed.messages 10000 \
//		-killed.kills 100 -killed.restarts 20
func TestKilled(t *testing.T) {
	servertest.Long(t)
	for _, s := range []Subject{pgx, sqlPgx, mariaDB} {
		for _, marks := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, marks %v, counts in Redis", s.Name, marks), func(t *testing.T) {
				t.Parallel()
				s.killed(t, marks, servertest.Patient(t, servertest.StoreURL(t)))
			})
		}
		t.Run(s.Name+", marks true, counts in the database", func(t *testing.T) {
			t.Parallel()
			url, err := rig.Databases[s.Store].Prepare(t.Context(), s.Server(t))
			need(t, err)
			s.killed(t, true, url)
		})
	}
}

func (s Subject) killed(t *testing.T, marks bool, store string) {
	b, broker := newBench(t, s, s.Server(t)), servertest.Broker(t, servers.RabbitMQOptions{})
	c := child{Subject: s.Name, Addr: b.addr, Database: b.name, AMQP: broker.URL, Store: store,
		Queue: "inbox." + uuid.NewString(), Marks: marks}
	c.publish(t, &rig.Broker{URL: broker.URL, Private: broker})
	began, restarting, restarted := time.Now(), panics.Group{}, 0
	for i := range *kills {
		if (i+1)*(*restarts) / *kills > restarted {
			need(t, restarting.Wait())
			restarted++
			restarting.Go(func() error { return errors.Join(broker.Kill(), broker.Start(t.Context())) })
		}
		most := *messages / *kills * 3 / 4 // so the messages suffice
		c.Dies = most/5 + rand.IntN(most-most/5+1)
		if got := c.run(t, nil); got != "signal: killed" {
			t.Fatalf("a consumer that was to kill itself ended with %q", got)
		}
	}
	need(t, restarting.Wait())
	count := func(of string) int {
		n, err := b.db.Int(t.Context(), "SELECT count("+of+") FROM effects")
		need(t, err)
		return n
	}
	c.Dies = 0
	end := c.run(t, func() error {
		if n := count("DISTINCT id"); n < *messages {
			return fmt.Errorf("%d of %d messages have an effect", n, *messages)
		}
		return nil
	})
	if end != "exit status 0" {
		t.Errorf("the last consumer ended with %q", end)
	}
	effects, distinct := count("*"), count("DISTINCT id")
	t.Logf("%d messages, %d kills, %d restarts of the broker, %v: %d effects, %d twice, %d missing", *messages, *kills,
		restarted, time.Since(began).Round(time.Second), effects, effects-distinct, *messages-distinct)
	if twice := effects - distinct; marks != (twice == 0) || distinct != *messages || restarted != *restarts {
		t.Errorf("%d effects of %d messages", effects, distinct)
	}
}

// publish declares the queue and fills it.
func (c child) publish(t *testing.T, to *rig.Broker) {
	t.Helper()
	need(t, to.OnConnection(func(conn *amqp.Connection) error {
		return topology.Declare(t.Context(), conn, topology.Spec{Queue: c.Queue})
	}))
	msgs := make([]publisher.Message, *messages)
	for i := range msgs {
		msgs[i] = publisher.Message{Key: c.Queue, Publishing: amqp.Publishing{MessageId: strconv.Itoa(i)}}
	}
	need(t, to.Publish(t.Context(), msgs))
	// A broker that is killed just after the declaration of a quorum queue may forget the queue's log.
	need(t, to.Restart(t.Context()))
}

// run runs a consumer process to its end, and returns how it ended. If done is given, the process is told to end as
// soon as done has no error.
func (c child) run(t *testing.T, done func() error) string {
	t.Helper()
	cmd, stdin, err := fleet.Command(c)
	need(t, err)
	defer stdin.Close() // which ends it at the latest
	need(t, cmd.Start())
	defer time.AfterFunc(5*time.Minute, func() { _ = cmd.Process.Kill() }).Stop()
	if done != nil {
		err := poll.Until(t.Context(), 5*time.Minute, "the last messages", done)
		if err := errors.Join(err, cmd.Process.Signal(syscall.SIGTERM)); err != nil {
			t.Error(err)
		}
	}
	if err := cmd.Wait(); err != nil {
		return err.Error()
	}
	return "exit status 0"
}
