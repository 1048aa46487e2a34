package deadletter

import (
	"context"
	"fmt"
	"net/http"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/internal/management"
	"github.com/strikesmq/strikes/internal/queueinfo"
)

// ErrQueueNotFound is returned for a queue that does not exist.
var ErrQueueNotFound = queueinfo.ErrNotFound

// Describe returns the nature of a queue. It asks the management API at the URL api, if that is not empty, and AMQP if the API does not
// answer: then the user needs the configure permission on the queue. It changes nothing. It may wait 15 s for the policy of a quorum
// queue that was just declared. It returns ErrQueueNotFound, or an error of the connection or of the URL. A nil client means one that
// keeps no connections.
func Describe(ctx context.Context, conn *amqp.Connection, queue, api string, client *http.Client) (Nature, error) {
	n, err := describe(ctx, conn, queue, api, client)
	if err != nil {
		return Nature{}, fmt.Errorf("deadletter: describe queue %q in virtual host %q: %w", queue, conn.Config.Vhost, err)
	}
	return n, nil
}

func describe(ctx context.Context, conn *amqp.Connection, queue, api string, client *http.Client) (Nature, error) {
	if err := queueinfo.CheckName(queue); err != nil {
		return Nature{}, err
	}
	var m *management.Client
	if api != "" {
		var err error
		if m, err = management.New(api, client); err != nil {
			return Nature{}, err
		}
	}
	d, err := management.Describe(ctx, conn, queue, m)
	if err != nil {
		return Nature{}, err
	}
	n := Nature{
		Type: d.Type, Major: d.Version.Major, Minor: d.Version.Minor, PolicyKnown: d.PolicyKnown, Unread: d.Unread, Denied: d.Denied,
	}
	n.Limit, n.Limited = d.DeliveryLimit()
	if d.Exclusive {
		n.Type, n.Unread = "", "it is exclusive to another connection"
	}
	if d.Trouble != "" {
		if n.Unread != "" {
			n.Unread += "; "
		}
		n.Unread += "the management API does not answer: " + d.Trouble
	}
	return n, nil
}
