package broker

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Queue is a queue as the API shows it.
type ListedQueue struct {
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

	Members []string `json:"members"` // of a quorum queue: the nodes with a replica
	Online  []string `json:"online"`  // those of them where it is up
}

// queueColumns are those of a queueReply.
const queueColumns = "name,type,durable,auto_delete,exclusive,arguments,policy,operator_policy," +
	"effective_policy_definition,members,online"

// Queue returns a queue, or ErrNotFound.
func (c *API) Queue(ctx context.Context, vhost, name string) (ListedQueue, error) {
	var reply queueReply
	if err := c.get(ctx, &reply, "?columns="+queueColumns, "queues", vhost, name); err != nil {
		return ListedQueue{}, err
	}
	return reply.queue(), nil
}

// largestMessage is the most bytes that Next reads: a broker takes 16 MiB by default, and base64 adds a third.
const largestMessage = 256 << 20

// Next reads the next message of a queue, as the API shows it: JSON with the body in base64, on one line. Unless it
// takes the message off, the message returns to the head.
func (c *API) Next(ctx context.Context, vhost, queue string, takeOff bool) (message []byte, err error) {
	mode := "ack_requeue_true"
	if takeOff {
		mode = "ack_requeue_false"
	}
	body := map[string]any{"count": 1, "ackmode": mode, "encoding": "base64"}
	err = c.ask(ctx, http.MethodPost, body, "", []string{"queues", vhost, queue, "get"},
		func(where string, reply io.Reader) error {
			var messages []json.RawMessage
			if err := json.NewDecoder(io.LimitReader(reply, largestMessage)).Decode(&messages); err != nil {
				return fmt.Errorf("POST %s: the reply is not the JSON expected: %w", where, err)
			}
			if len(messages) != 1 {
				return fmt.Errorf("POST %s: %w: no message came", where, ErrNoObject)
			}
			var line bytes.Buffer
			if err := json.Compact(&line, messages[0]); err != nil {
				return fmt.Errorf("POST %s: %w", where, err)
			}
			message = line.Bytes()
			return nil
		})
	return message, err
}

// queueReply is a Queue with its objects as the API writes them. Its fields hide those of Queue from the decoder.
type queueReply struct {
	ListedQueue
	Arguments object[amqp.Table] `json:"arguments"`
	Policy    object[amqp.Table] `json:"effective_policy_definition"`
}

func (r queueReply) queue() ListedQueue {
	q := r.ListedQueue
	q.Arguments, q.Policy = r.Arguments.is, r.Policy.is
	integers(q.Arguments)
	integers(q.Policy)
	return q
}

// queuesPage is how many queues one reply lists; the API allows 500.
const queuesPage = 500

// Queues lists the queues of a virtual host.
func (c *API) Queues(ctx context.Context, vhost string) ([]Queue, error) {
	policies, err := c.Policies(ctx, vhost)
	if err != nil {
		return nil, err
	}
	var all []Queue
	for page := 1; ; page++ {
		var reply struct {
			Items []queueReply `json:"items"`
			Pages int          `json:"page_count"`
		}
		query := "?page=" + strconv.Itoa(page) + "&page_size=" + strconv.Itoa(queuesPage)
		if err := c.get(ctx, &reply, query, "queues", vhost); err != nil {
			return nil, err
		}
		for _, item := range reply.Items {
			have := item.queue()
			q := Queue{Name: have.Name, VHost: vhost}
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
func (c *API) Exchange(ctx context.Context, vhost, name string) (Exchange, error) {
	var reply exchangeReply
	err := c.get(ctx, &reply, "?columns=type,arguments,policy", "exchanges", vhost, name)
	return reply.exchange(), err
}

// exchangeReply is an Exchange with its object as the API writes it.
type exchangeReply struct {
	Exchange
	Arguments object[amqp.Table] `json:"arguments"`
}

func (r exchangeReply) exchange() Exchange {
	x := r.Exchange
	x.Arguments = r.Arguments.is
	return x
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
func (c *API) Bindings(ctx context.Context, vhost, exchange string) ([]Binding, error) {
	return c.bindings(ctx, "", "exchanges", vhost, exchange, "bindings", "source")
}

// BindingsTo returns the bindings to a queue, with that of the default exchange.
func (c *API) BindingsTo(ctx context.Context, vhost, queue string) ([]Binding, error) {
	return c.bindings(ctx, "", "queues", vhost, queue, "bindings")
}

func (c *API) bindings(ctx context.Context, query string, segments ...string) ([]Binding, error) {
	var reply []struct {
		Binding
		Arguments object[amqp.Table] `json:"arguments"`
	}
	if err := c.get(ctx, &reply, query, segments...); err != nil {
		return nil, err
	}
	all := make([]Binding, len(reply))
	for i, b := range reply {
		all[i] = b.Binding
		all[i].Arguments = b.Arguments.is
	}
	return all, nil
}

// Consumer is a consumer as the API shows it.
type Consumer struct {
	Tag      string `json:"consumer_tag"`
	Acks     bool   `json:"ack_required"`
	Prefetch int64  `json:"prefetch_count"`
	Channel  object[struct {
		Connection string `json:"connection_name"`
	}] `json:"channel_details"`

	Arguments object[map[string]any] `json:"arguments"`

	RawTimeout any `json:"consumer_timeout"` // in ms; "undefined"; absent before RabbitMQ 4.0
}

// Connection is the name of its connection; empty if its channel is closing.
func (c Consumer) Connection() string { return c.Channel.is.Connection }

// Priority is its x-priority; 0 if it has none.
func (c Consumer) Priority() int64 {
	n, _ := c.Arguments.is[ArgPriority].(json.Number)
	priority, _ := n.Int64()
	return priority
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
	// Bytes and PersistentBytes are of message bodies, and of one moment. Counts of messages are not: the API takes the
	// number of all from one table and that of the persistent ones from another.
	Bytes           int64 `json:"message_bytes"`
	PersistentBytes int64 `json:"message_bytes_persistent"`

	Priorities int64      `json:"messages_active_priorities"` // in use; quorum queues report it from 4.3 on
	Consumers  []Consumer `json:"consumer_details"`
}

// State returns the state of a queue, or ErrNotFound.
func (c *API) State(ctx context.Context, vhost, queue string) (State, error) {
	var s State
	err := c.get(ctx, &s, "", "queues", vhost, queue)
	return s, err
}
