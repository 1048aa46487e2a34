package deadletter

import (
	"context"
	"fmt"
	"net/http"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/internal/pause"
	"github.com/strikesmq/strikes/internal/setting"
)

// Queue is a dead-letter queue. Its methods open connections of their own and close them. They may be called
// concurrently, but only one call per queue gets through.
type Queue struct {
	Name string // must not be empty

	// Dial returns a new connection each time, with amqp.Config.Recovery nil.
	Dial func(context.Context) (*amqp.Connection, error)

	// Handling lists the actions that are safe on the queue. Open fills it in; the zero value allows none.
	Handling Handling

	// Records are the counter's records. If nil, dead letters have no Record, replayed messages are not watched, and
	// records do not say which dead letters were taken off.
	Records Records

	// Partitioned is the queue whose partitions' dead letters are in the queue, and are counted under its name; if empty,
	// there is none. Such a dead letter is replayed to the exchange of that name, with its routing key.
	Partitioned string
	Partitions  int // of Partitioned; if zero, a replay keeps the number of them that the message was published for

	// Key is that of the consumers that counted the messages; if nil, their MessageId.
	Key func(amqp.Delivery) string

	// Preview is how many bytes of each body Browse keeps; if zero, none. MostRead is how many messages it reads at most;
	// if zero, all. Once their bodies have MostBytes bytes, it ends; if zero, it has no such limit.
	Preview, MostRead, MostBytes int

	// Progress, if not nil, is called on the caller's goroutine during long work.
	Progress func(Progress)
}

// Progress of a method.
type Progress struct {
	Doing string // "reading", "replaying", "dropping", "returning"
	Done  int
	Of    int // zero: not known
}

func (q *Queue) progress(doing string, done, of int) {
	if q.Progress != nil {
		q.Progress(Progress{doing, done, of})
	}
}

func (q *Queue) validate() error {
	switch {
	case q.Name == "":
		return fmt.Errorf("deadletter: %w", setting.New("Name", "", "that of the dead-letter queue"))
	case q.Dial == nil:
		return fmt.Errorf("deadletter: queue %q: %w", q.Name, setting.New("Dial", nil,
			"a function that returns a new *amqp.Connection"))
	}
	return nil
}

// Allows returns nil if Replay and Drop take the messages of a filter. Else it returns the error with which they refuse
// before they touch the queue. It wraps ErrUnsafe.
func (q *Queue) Allows(f Filter) error {
	if f.Everything() {
		return q.mayTake()
	}
	return q.mayRead()
}

// mayTake returns an error where it is not safe to take messages off the queue.
func (q *Queue) mayTake() error {
	if q.Handling.Take {
		return nil
	}
	return fmt.Errorf("%w to take from queue %q: %s", ErrUnsafe, q.Name, q.Handling.Why)
}

// mayRead returns an error where it is not safe to read the queue.
func (q *Queue) mayRead() error {
	switch h := q.Handling; {
	case h.endures():
		return nil
	case h.Limit > 0 && h.Limit < broker.EnoughReturns:
		return fmt.Errorf("%w to read queue %q: %s; or replay or drop everything, which returns nothing", ErrWorn, q.Name,
			h.Why)
	}
	return fmt.Errorf("%w to read queue %q: %s", ErrUnsafe, q.Name, q.Handling.Why)
}

// Depth returns how many messages are ready in the queue. It returns ErrBusy while the queue has a consumer, whose
// messages are not counted.
func (q *Queue) Depth(ctx context.Context) (int, error) {
	if err := q.validate(); err != nil {
		return 0, err
	}
	conn, err := broker.Connect(ctx, q.Dial)
	if err != nil {
		return 0, err
	}
	defer broker.HangUp(conn)
	defer onTime(conn)()
	ch, err := conn.Channel()
	if err != nil {
		return 0, explain(q.Name, err)
	}
	n, err := quiet(ctx, ch, q.Name)
	if err != nil {
		return 0, explain(q.Name, err)
	}
	return n, nil
}

// quiet returns how many messages are ready once the queue has no consumer. The broker counts a consumer that has just
// ended, also our own, for a moment.
func quiet(ctx context.Context, ch *amqp.Channel, queue string) (int, error) {
	for begun := time.Now(); ; {
		now, err := broker.Passive(ch, queue)
		switch {
		case err != nil:
			return 0, err
		case now.Consumers == 0:
			return now.Messages, nil
		case time.Since(begun) > lingers:
			return 0, busy(now)
		case !pause.For(ctx, 20*time.Millisecond):
			return 0, ctx.Err()
		}
	}
}

// lingers is how long the broker may count a consumer, or keep a lock, that has ended.
const lingers = 3 * time.Second

// patience is how long a call to the broker may take, and how long a message that was counted as ready may take to
// arrive.
const patience = 10 * time.Second

// onTime closes the connection unless the returned function is called soon: calls of amqp091-go take no context.
func onTime(conn *amqp.Connection) (done func()) {
	t := time.AfterFunc(patience, func() { broker.HangUp(conn) })
	return func() { t.Stop() }
}

// ErrQueueNotFound is wrapped by Open if the queue does not exist.
var ErrQueueNotFound = broker.ErrNotFound

// Management says where the management API of the broker is.
type Management struct {
	URL    string       // such as http://user:password@host:15672; if empty, Open asks AMQP alone
	Client *http.Client // if nil, one that keeps no connections
}

// Open returns q with its Handling filled in, which lists the actions that are safe on the queue. It asks the
// management API, if its URL is given. If the API does not answer, Open asks AMQP, and the user needs the configure
// permission on the queue. It changes nothing. It may wait 15 s for the policy of a quorum queue that was just
// declared. Its error wraps ErrQueueNotFound, is a *FieldError, says that the queue's node is down, or is
// that of the connection.
func Open(ctx context.Context, q Queue, api Management) (*Queue, error) {
	if err := q.validate(); err != nil {
		return nil, err
	}
	conn, err := broker.Connect(ctx, q.Dial)
	if err != nil {
		return nil, err
	}
	defer broker.HangUp(conn)
	if q.Handling, err = handling(ctx, conn, q.Name, api); err != nil {
		return nil, fmt.Errorf("deadletter: open queue %q in virtual host %q: %w", q.Name, conn.Config.Vhost, err)
	}
	return &q, nil
}

func handling(ctx context.Context, conn *amqp.Connection, queue string, api Management) (Handling, error) {
	if err := broker.CheckName(queue); err != nil {
		return Handling{}, err
	}
	var m *broker.API
	if api.URL != "" {
		var err error
		if m, err = broker.NewAPI(api.URL, api.Client); err != nil {
			return Handling{}, err
		}
	}
	d, err := broker.Describe(ctx, conn, queue, m)
	if err == nil && d.Away {
		err = broker.ErrAway
	}
	return handlingOf(d), err
}
