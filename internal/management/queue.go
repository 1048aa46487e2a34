package management

import (
	"context"
	"encoding/json"
	"strconv"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/internal/queueinfo"
)

// Queue is a queue as the API shows it.
type Queue struct {
	Name       string     `json:"name"`
	Type       string     `json:"type"`
	Durable    bool       `json:"durable"`
	AutoDelete bool       `json:"auto_delete"`
	Exclusive  bool       `json:"exclusive"`
	Arguments  amqp.Table `json:"arguments"`

	// Policy is the effective definition. It is nil for the first 2 to 10 s of a queue, and empty if no policy applies.
	Policy         amqp.Table `json:"effective_policy_definition"`
	PolicyName     string     `json:"policy"`
	OperatorPolicy string     `json:"operator_policy"` // its name
}

// Queue returns a queue, or ErrNotFound.
func (c *Client) Queue(ctx context.Context, vhost, name string) (Queue, error) {
	const columns = "?columns=name,type,durable,auto_delete,exclusive,arguments,policy,operator_policy,effective_policy_definition"
	var q Queue
	if err := c.get(ctx, &q, columns, "queues", vhost, name); err != nil {
		return Queue{}, err
	}
	q.integers()
	return q, nil
}

func (q Queue) integers() {
	integers(q.Arguments)
	integers(q.Policy)
}

// queuesPage is how many queues one reply lists; the API allows 500.
const queuesPage = 500

// Queues lists the queues of a virtual host.
func (c *Client) Queues(ctx context.Context, vhost string) ([]queueinfo.Queue, error) {
	policies, err := c.Policies(ctx, vhost)
	if err != nil {
		return nil, err
	}
	var all []queueinfo.Queue
	for page := 1; ; page++ {
		var reply struct {
			Items []Queue `json:"items"`
			Pages int     `json:"page_count"`
		}
		query := "?page=" + strconv.Itoa(page) + "&page_size=" + strconv.Itoa(queuesPage)
		if err := c.get(ctx, &reply, query, "queues", vhost); err != nil {
			return nil, err
		}
		for _, have := range reply.Items {
			have.integers()
			q := queueinfo.Queue{Name: have.Name, VHost: vhost}
			policies.Describe(have, &q)
			all = append(all, q)
		}
		if page >= reply.Pages {
			return all, nil
		}
	}
}

// Exchange is an exchange as the API shows it.
type Exchange struct {
	Type      string     `json:"type"`
	Arguments amqp.Table `json:"arguments"`
	Policy    string     `json:"policy"` // its name
}

// Exchange returns an exchange, or ErrNotFound.
func (c *Client) Exchange(ctx context.Context, vhost, name string) (Exchange, error) {
	var x Exchange
	err := c.get(ctx, &x, "?columns=type,arguments,policy", "exchanges", vhost, name)
	return x, err
}

// Binding is a binding as the API shows it.
type Binding struct {
	Source          string     `json:"source"`
	Destination     string     `json:"destination"`
	DestinationType string     `json:"destination_type"` // "queue" or "exchange"
	Key             string     `json:"routing_key"`
	Arguments       amqp.Table `json:"arguments"`
	Properties      string     `json:"properties_key"` // its name among those with the same source and destination
}

// Bindings returns the bindings from an exchange.
func (c *Client) Bindings(ctx context.Context, vhost, exchange string) ([]Binding, error) {
	var all []Binding
	err := c.get(ctx, &all, "", "exchanges", vhost, exchange, "bindings", "source")
	return all, err
}

// BindingsTo returns the bindings to a queue, with that of the default exchange.
func (c *Client) BindingsTo(ctx context.Context, vhost, queue string) ([]Binding, error) {
	var all []Binding
	err := c.get(ctx, &all, "", "queues", vhost, queue, "bindings")
	return all, err
}

// Consumer is a consumer as the API shows it.
type Consumer struct {
	Tag      string `json:"consumer_tag"`
	Acks     bool   `json:"ack_required"`
	Prefetch int64  `json:"prefetch_count"`
	Channel  struct {
		Connection string `json:"connection_name"`
	} `json:"channel_details"`

	RawTimeout any `json:"consumer_timeout"` // in ms; "undefined"; absent before RabbitMQ 4.0
}

// Timeout is the consumer timeout; 0 if it is not known.
func (c Consumer) Timeout() time.Duration {
	n, _ := c.RawTimeout.(json.Number)
	ms, _ := n.Int64()
	return Milliseconds(ms)
}

// Milliseconds is n ms, or the longest duration.
func Milliseconds(n int64) time.Duration {
	return time.Duration(min(n, int64(1<<63-1)/int64(time.Millisecond))) * time.Millisecond
}

// State is the content of a queue and its consumers, as of a few seconds ago.
type State struct {
	// Bytes and PersistentBytes are of message bodies, and of one moment. Counts of messages are not: the API takes the number of all from
	// one table and that of the persistent ones from another.
	Bytes           int64 `json:"message_bytes"`
	PersistentBytes int64 `json:"message_bytes_persistent"`

	Priorities int64      `json:"messages_active_priorities"` // in use; quorum queues report it from 4.3 on
	Consumers  []Consumer `json:"consumer_details"`
}

// State returns the state of a queue, or ErrNotFound.
func (c *Client) State(ctx context.Context, vhost, queue string) (State, error) {
	var s State
	err := c.get(ctx, &s, "", "queues", vhost, queue)
	return s, err
}
