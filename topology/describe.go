package topology

import (
	"context"
	"net/http"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/internal/queueinfo"
)

// Description is what decides what becomes of a message that is returned to a
// queue.
type Description struct {
	Queue        string
	Type         string // "classic", "quorum", "stream"; empty: it could not be told, see Unread
	Major, Minor int    // release of the broker; zero: it does not tell

	// DeliveryLimit as argument and policy make it, and whether there is one.
	// From 4.0 on a quorum queue without one has the limit 20.
	DeliveryLimit int64
	Limited       bool

	PolicyKnown bool   // false: a policy may set a limit that is not known
	Unread      string // why something is not known; empty where all is
	Denied      bool   // Type is not known for lack of permissions
}

// Describe tells what kind of queue it is. It asks the management API at the
// URL management if that is not empty, and AMQP, with the configure permission
// on the queue, where the API does not answer. It changes nothing. It may wait
// 15 s for the policy of a quorum queue that was just declared. It returns
// ErrQueueNotFound, or an error of the connection or of the URL. A nil client
// means one that keeps no connections.
func Describe(ctx context.Context, conn *amqp.Connection, queue, management string, client *http.Client) (Description, error) {
	g, err := newGatherer(conn, Need{Queue: queue, Management: management, HTTPClient: client}, false)
	if err != nil {
		return Description{}, err
	}
	f, err := settled(ctx, g.gather, func(f facts) bool { return g.api != nil && f.Type == queueinfo.Quorum })
	if err != nil {
		return Description{}, g.failed("describe", err)
	}
	return describe(f), nil
}

func describe(f facts) Description {
	d := Description{
		Queue: f.Name, Type: f.Type, Major: f.Version.Major, Minor: f.Version.Minor,
		PolicyKnown: f.PolicyKnown, Unread: f.Unread,
	}
	d.DeliveryLimit, d.Limited = f.DeliveryLimit()
	switch {
	case f.Unread != "":
		d.Type, d.Denied = "", f.Denied
	case f.Exclusive:
		d.Type, d.Unread = "", "it is exclusive to another connection"
	}
	if f.apiTrouble != "" {
		if d.Unread != "" {
			d.Unread += "; "
		}
		d.Unread += "the management API tells nothing: " + f.apiTrouble
	}
	return d
}
