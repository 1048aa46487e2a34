package deadletter

import (
	"context"
	"fmt"
	"iter"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/setting"
)

// Queue is a dead-letter queue. Its methods open connections of their own and
// close them; what one reports, Progress, is called on the goroutine of the
// caller. They may be called at once, but on one queue only one gets through.
type Queue struct {
	Name string // must not be empty

	// Dial returns a new connection each time, with amqp.Config.Recovery nil.
	Dial func(context.Context) (*amqp.Connection, error)

	// Handling is what may be done with the queue: see Nature.
	Handling Handling

	// Records is where failures are counted; a *counter.Admin is one. If nil,
	// dead letters have no Record, replayed messages are not watched, and nobody
	// is told what was taken off.
	Records Records

	// Key is that of the consumers that counted the messages; if nil, their
	// MessageId.
	Key func(amqp.Delivery) string

	// Preview is how many bytes of each body Browse keeps; if zero, none.
	Preview int

	// Dir is where what was picked waits in an unnamed file, so that memory does
	// not grow with the queue; if empty, that of os.TempDir.
	Dir string

	// Progress, if not nil, is told of long work.
	Progress func(Progress)
}

// Records looks up what is kept of messages, and searches it where a dead letter
// does not tell in which of its lives it died.
//
// AddTaken gets the dead letters that Replay and Drop took off, by the queue in
// which they died, if their records are tombstones. It is called after they are
// off, ten times a second at most and at the end. If the process is killed in
// between, these are never noted. An error ends nothing: see Result.RecordsErr.
type Records interface {
	Lookup(ctx context.Context, vhost, queue string, lives []counter.Message) (map[counter.Message]counter.Record, error)
	Generations(ctx context.Context, vhost, queue string) iter.Seq2[counter.Record, error]
	NoteRemoved(ctx context.Context, vhost, queue string, dead []counter.Message) error
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
		return fmt.Errorf("deadletter: queue %q: %w", q.Name, setting.New("Dial", nil, "a function that returns a new *amqp.Connection"))
	}
	return nil
}

// mayHold refuses to look at a queue where that is not harmless.
func (q *Queue) mayHold() error {
	if q.Handling.Hold {
		return nil
	}
	return fmt.Errorf("%w to look at queue %q: %s", ErrUnsafe, q.Name, q.Handling.Why)
}

func (q *Queue) mayTake() error {
	if q.Handling.Take {
		return nil
	}
	return fmt.Errorf("%w to take from queue %q: %s", ErrUnsafe, q.Name, q.Handling.Why)
}

// Depth is how many messages are ready in the queue. It is ErrBusy while somebody
// consumes from it, for what they hold is not counted.
func (q *Queue) Depth(ctx context.Context) (int, error) {
	if err := q.validate(); err != nil {
		return 0, err
	}
	conn, err := q.Dial(ctx)
	if err != nil {
		return 0, err
	}
	defer hangUp(conn)
	defer onTime(conn)()
	ch, err := conn.Channel()
	if err != nil {
		return 0, fmt.Errorf("deadletter: queue %q: %w", q.Name, err)
	}
	n, err := quiet(ctx, ch, q.Name)
	if err != nil {
		return 0, explain(q.Name, err)
	}
	return n, nil
}

// patience is how long a call to the broker may take, and how long a message
// that was counted as ready may be on its way.
const patience = 10 * time.Second

// onTime closes the connection unless the function that it returns is called
// soon: calls of amqp091-go know no context.
func onTime(conn *amqp.Connection) (done func()) {
	t := time.AfterFunc(patience, func() { hangUp(conn) })
	return func() { t.Stop() }
}

// hangUp closes a connection. Its error would only say that it is gone.
func hangUp(conn *amqp.Connection) { _ = conn.CloseDeadline(time.Now().Add(time.Second)) }

// state is the number of ready messages and of consumers.
func state(ch *amqp.Channel, queue string) (amqp.Queue, error) {
	return ch.QueueDeclarePassive(queue, false, false, false, false, nil)
}
