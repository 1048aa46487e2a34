// Package inbox tests the inboxes of the plugins on real databases: one table of cases, a test that kills consumers,
// and a benchmark, for each plugin, driver and database.
package inbox

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/integration/internal/fleet"
	"github.com/strikesmq/strikes/internal/poll"
	"github.com/strikesmq/strikes/internal/servertest"
)

// Open opens a pool of connections to a database at HOST:PORT.
type Open func(ctx context.Context, addr, database string, readOnly bool) (Pool, error)

// A Subject is a driver, and the database that it is tested on.
type Subject struct {
	Name    string
	Open    Open
	Store   string                         // the kind of the database, which may keep the counts too
	Server  func(testing.TB) (addr string) // HOST:PORT of the shared server
	Durable func(testing.TB) (addr string) // of a server of the test's own, which writes each COMMIT to the disk
	Admin   string                         // the database in which others are created

	Schema    string // of the inbox
	LongestID int
	Waiting   string // counts the INSERTs of marks that wait
	Impatient string // has a transaction wait for a lock for a second at most
	Slow      string // a statement that takes 5 s
	Idle      string // reads how long a transaction may be idle, in ms; empty: the inbox does not set it
	Strict    bool   // a transaction with a failed statement cannot be committed
	ReadWrite bool   // the driver begins each transaction READ WRITE, whatever the server's default is
}

// A Pool is a pool of connections to one database, with the inbox of a plugin.
type Pool interface {
	Exec(ctx context.Context, query string) error
	Int(ctx context.Context, query string) (int, error) // of a row with one column
	Handler(in Settings, work Work) consumer.Handler
	Plain(work Work) consumer.Handler // the work in a transaction, without an inbox
	Forget(ctx context.Context, queue string, keep time.Duration) (int64, error)
	Close()
}

// Settings are the fields of an inbox.
type Settings struct {
	Queue string
	Key   func(amqp.Delivery) string
	Wait  time.Duration
}

// Work runs statements in the transaction of a message.
type Work func(ctx context.Context, tx Tx, d amqp.Delivery) error

// Tx is the transaction of a work.
type Tx interface {
	Exec(ctx context.Context, query string) error
	Text(ctx context.Context, query string) (string, error) // of a row with one column
	End(ctx context.Context) error                          // commits
	Leave(ctx context.Context, query string) error          // leaves the rows of a query open
}

var (
	pgx     = postgreSQL("PostgreSQL with pgx", openPgx)
	sqlPgx  = postgreSQL("PostgreSQL with database/sql", openPostgreSQL("pgx"))
	mariaDB = onMariaDB("MariaDB", openMariaDB(""))

	// Other drivers and settings of the same databases. With clientFoundRows, MariaDB counts the rows that a statement
	// found, not those that it changed.
	subjects = []Subject{
		pgx, sqlPgx, mariaDB, pq(postgreSQL("PostgreSQL with pq", openPostgreSQL("postgres"))),
		onMariaDB("MariaDB with clientFoundRows", openMariaDB("&clientFoundRows=true&interpolateParams=true")),
	}
)

// TestMain makes this test binary a consumer process where it is started as one.
func TestMain(m *testing.M) {
	fleet.Main(func(ctx context.Context, c child) error { return c.consume(ctx) })
	os.Exit(servertest.Run(m))
}

var need = servertest.Need

// queue is the queue of all cases, each of which has a database of its own.
const queue = "invoices"

var databases atomic.Int64

// bench is a database of one case.
type bench struct {
	Subject

	addr, name string
	db         Pool
	worked     atomic.Int64 // calls of the work
}

func newBench(t testing.TB, s Subject, addr string) *bench {
	t.Helper()
	b := &bench{Subject: s, addr: addr, name: "strikes" + strconv.FormatInt(databases.Add(1), 10)}
	admin := b.open(t, b.addr, s.Admin)
	need(t, admin.Exec(t.Context(), "CREATE DATABASE "+b.name))
	b.db = b.open(t, b.addr, b.name)
	b.exec(t, s.Schema)
	b.exec(t, "CREATE TABLE effects (id varchar(255) NOT NULL)")
	return b
}

func (b *bench) open(t testing.TB, addr, name string) Pool {
	t.Helper()
	p, err := b.Open(context.WithoutCancel(t.Context()), addr, name, false)
	need(t, err)
	t.Cleanup(p.Close)
	return p
}

func (b *bench) exec(t testing.TB, query string) {
	t.Helper()
	need(t, b.db.Exec(t.Context(), query))
}

// want compares the effects, the marks and the calls of the work with the expected numbers.
func (b *bench) want(t *testing.T, effects, marks, worked int) {
	t.Helper()
	gotEffects, err := b.db.Int(t.Context(), "SELECT count(*) FROM effects")
	need(t, err)
	gotMarks, err := b.db.Int(t.Context(), "SELECT count(*) FROM strikes_inbox")
	need(t, err)
	if gotEffects != effects || gotMarks != marks || int(b.worked.Load()) != worked {
		t.Errorf("%d effects, %d marks, the work was called %d times; want %d, %d, %d", gotEffects, gotMarks,
			b.worked.Load(), effects, marks, worked)
	}
}

// awaitWaiting waits until an INSERT of a mark waits for another.
func (b *bench) awaitWaiting(t *testing.T) {
	t.Helper()
	need(t, poll.Until(t.Context(), time.Minute, "an INSERT that waits", func() error {
		n, err := b.db.Int(t.Context(), b.Waiting)
		if err == nil && n == 0 {
			err = fmt.Errorf("none waits")
		}
		return err
	}))
}

// effect is a work that has one effect.
func (b *bench) effect(ctx context.Context, tx Tx, _ amqp.Delivery) error {
	b.worked.Add(1)
	return tx.Exec(ctx, "INSERT INTO effects (id) VALUES ('effect')")
}

// handler is an inbox with default settings.
func (b *bench) handler(work Work) consumer.Handler {
	return b.db.Handler(Settings{Queue: queue}, work)
}

// message is a delivery of a message.
func message(id string) amqp.Delivery {
	return amqp.Delivery{Acknowledger: sink{}, MessageId: id, Redelivered: true}
}

// replayed is a delivery of a message that was dead-lettered and moved back.
func replayed(id string) amqp.Delivery {
	d := message(id)
	d.Headers = amqp.Table{"x-death": []any{amqp.Table{"queue": queue, "reason": "rejected", "count": int64(1),
		"time": time.Unix(1_700_000_000, 0)}}}
	return d
}

type sink struct{} // the broker's side of a delivery

func (sink) Ack(uint64, bool) error        { return nil }
func (sink) Nack(uint64, bool, bool) error { return nil }
func (sink) Reject(uint64, bool) error     { return nil }

// heard are the events of a delivery.
type heard struct {
	mu       sync.Mutex
	outcomes []string
	errs     []error
	first    func() // called at the first event; nil: nothing
}

func (h *heard) Observe(_ context.Context, e consumer.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.outcomes = append(h.outcomes, string(e.Outcome))
	h.errs = append(h.errs, e.Err)
	if len(h.outcomes) == 1 && h.first != nil {
		h.first()
	}
}

// deliver handles a delivery whose first counted failure dead-letters it. It returns the outcomes, those of attempts
// that were not counted among them, and the error of the first.
func deliver(ctx context.Context, timeout time.Duration, handler consumer.Handler, d amqp.Delivery,
	first func()) (outcomes string, err error) {
	h := &heard{first: first}
	c := &consumer.Consumer{
		Queue: queue, Handler: handler, Counter: counter.NewMemory(&counter.Options{TTL: 365 * 24 * time.Hour}),
		MaxRetries: -1, HandlerTimeout: timeout, ConsumerTimeout: max(consumer.DefaultConsumerTimeout, 2*timeout),
		Backoff: func(int) time.Duration { return 0 }, Observer: h,
	}
	if _, err := c.Handle(ctx, "/", d); err != nil {
		return "", err
	}
	return fmt.Sprint(h.outcomes), h.errs[0]
}
