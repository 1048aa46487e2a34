package topology

import (
	"context"
	"errors"
	"fmt"
	"slices"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/internal/setting"
)

// TryManagement returns nil if need.Management answers, lets its user in, and is
// that of the broker which the connection leads to. Of need, only Management
// and HTTPClient are used.
func TryManagement(ctx context.Context, conn *amqp.Connection, need Need) error {
	m, err := newManagement(need.Management, need.HTTPClient)
	if err != nil {
		return err
	}
	if err := m.serves(ctx, conn); err != nil {
		return fmt.Errorf("topology: the management API does not tell: %w", err)
	}
	return nil
}

// Listing is what List found.
type Listing struct {
	Queues     []string // that consumers may retry from, by name
	PassedOver []string // exclusive ones, streams, and the dead-letter queues of others
}

// List lists the queues of the connection's virtual host. It takes
// need.Management. A queue that another one's dead letters reach, and that has
// no dead-letter exchange itself, is passed over: Examine looks at it with the
// other one. Of need, only Management and HTTPClient are used.
func List(ctx context.Context, conn *amqp.Connection, need Need) (Listing, error) {
	if need.Management == "" {
		return Listing{}, fmt.Errorf("topology: %w", setting.New("Management", "", "the URL of the management API, because AMQP cannot list queues"))
	}
	m, err := newManagement(need.Management, need.HTTPClient)
	if err != nil {
		return Listing{}, err
	}
	vhost := conn.Config.Vhost
	all, err := m.queues(ctx, vhost)
	if err != nil {
		return Listing{}, fmt.Errorf("topology: list the queues of virtual host %q: %w", vhost, err)
	}
	dead, err := m.deadLetterQueues(ctx, vhost, all)
	if err != nil {
		return Listing{}, fmt.Errorf("topology: list the dead-letter queues of virtual host %q: %w", vhost, err)
	}
	return sortOut(all, dead), nil
}

func sortOut(all []listed, dead map[string]bool) Listing {
	var out Listing
	for _, q := range all {
		exchange, _ := q.way()
		if q.Exclusive || q.Type == "stream" || dead[q.Name] && exchange == nil {
			out.PassedOver = append(out.PassedOver, q.Name)
			continue
		}
		out.Queues = append(out.Queues, q.Name)
	}
	slices.Sort(out.Queues)
	slices.Sort(out.PassedOver)
	return out
}

// way is the dead-letter exchange, nil if there is none, and the routing key.
func (q listed) way() (exchange *string, key string) {
	f := facts{declared: declared{args: q.Arguments}, policy: q.Policy}
	key, _ = f.deadLetterKey()
	if x, set := f.deadLetterExchange(); set {
		return &x, key
	}
	return nil, key
}

// deadLetterQueues are the queues next to a dead-letter exchange.
func (m *management) deadLetterQueues(ctx context.Context, vhost string, all []listed) (map[string]bool, error) {
	dead, asked := map[string]bool{}, map[string]bool{}
	for _, q := range all {
		exchange, key := q.way()
		switch {
		case exchange == nil:
			continue
		case *exchange == "":
			dead[key] = true
			continue
		case asked[*exchange]:
			continue
		}
		asked[*exchange] = true
		bindings, err := m.bindings(ctx, vhost, *exchange)
		if err != nil && !errors.Is(err, errNoSuch) {
			return nil, err
		}
		for _, b := range bindings {
			dead[b.Destination] = dead[b.Destination] || b.DestinationType == "queue"
		}
	}
	return dead, nil
}
