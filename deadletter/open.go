package deadletter

import (
	"context"
	"fmt"
	"net/http"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/internal/broker"
)

// ErrQueueNotFound is wrapped by Open if the queue does not exist.
var ErrQueueNotFound = broker.ErrNotFound

// Management says where the management API of the broker is.
type Management struct {
	URL    string       // such as http://user:password@host:15672; if empty, Open asks AMQP alone
	Client *http.Client // if nil, one that keeps no connections
}

// Open returns q with its Handling filled in: what is safe to do with the queue. It asks the management API, if its URL
// is given. If the API does not answer, Open asks AMQP, and the user needs the configure permission on the queue. It
// changes nothing. It may wait 15 s for the policy of a quorum queue that was just declared. Its error wraps
// ErrQueueNotFound, is a *FieldError, or is that of the connection.
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
	if err != nil {
		return Handling{}, err
	}
	return handlingOf(d), nil
}
