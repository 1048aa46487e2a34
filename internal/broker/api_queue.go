package broker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// queueReply is a queue as the API shows it.
type queueReply struct {
	Name       string   `json:"name"`
	Type       string   `json:"type"`
	Durable    bool     `json:"durable"`
	AutoDelete bool     `json:"auto_delete"`
	Exclusive  bool     `json:"exclusive"`
	State      string   `json:"state"`
	Arguments  Table    `json:"arguments"`
	PolicyName string   `json:"policy"`
	Operator   string   `json:"operator_policy"` // its name
	Policy     Table    `json:"effective_policy_definition"`
	Members    []string `json:"members"` // nodes with a replica of a quorum queue
	Online     []string `json:"online"`  // those of them where it is up
}

// queueColumns are those of a queueReply.
const queueColumns = "name,type,durable,auto_delete,exclusive,state,arguments,policy,operator_policy," +
	"effective_policy_definition,members,online"

// queue has the policy that the API shows: none for the first 2 to 10 s of a queue, and an empty one if none applies.
func (r queueReply) queue(vhost string) Queue {
	return Queue{
		Name: r.Name, VHost: vhost, Exclusive: r.Exclusive,
		Declared: Declared{Type: r.Type, Durable: r.Durable, AutoDelete: r.AutoDelete, Args: amqp.Table(r.Arguments)},
		Away: r.Type == Classic && slices.Contains([]string{"down", "stopped", "crashed"}, r.State) ||
			len(r.Online) > 0 && 2*len(r.Online) <= len(r.Members),
		PolicyName: r.PolicyName, operatorName: r.Operator, Policy: amqp.Table(r.Policy), PolicyKnown: r.Policy != nil,
	}
}

// Queue returns a queue with the policy that the API shows, up to 10 s late; or ErrNoObject. Of a classic queue whose
// node is down, RabbitMQ 3.10 replies that there is none, and 4.3 that it runs: ask AMQP, too.
func (c *API) Queue(ctx context.Context, vhost, name string) (Queue, error) {
	reply, err := fetch[queueReply](ctx, c, "?columns="+queueColumns, "queues", vhost, name)
	reply.Name = name
	return reply.queue(vhost), err
}

// Listed is a queue of a virtual host, with its load.
type Listed struct {
	Queue
	Load
}

// queuesPage is how many queues one reply lists; the API allows 500.
const queuesPage = "500"

// List lists the queues of a virtual host with their loads and the policies that the API shows. It begins again, three
// times at most, if a queue comes or goes meanwhile: others may then be on another page.
func (c *API) List(ctx context.Context, vhost string) ([]Listed, error) {
	var all []Listed
	for page, total, again := 1, 0, 0; ; page++ {
		query := "?page=" + strconv.Itoa(page) + "&page_size=" + queuesPage + "&columns=" + queueColumns + "," + loadColumns
		reply, err := fetch[struct {
			Items []struct {
				queueReply
				loadReply
			} `json:"items"`
			Pages int `json:"page_count"`
			Total int `json:"total_count"`
		}](ctx, c, query, "queues", vhost)
		gone := page > 1 && errors.Is(err, errBadRequest) // queues were deleted, and the last page with them
		if err != nil && (!gone || again == 3) {
			return nil, err
		}
		if page > 1 && reply.Total != total && again < 3 {
			page, again, all = 0, again+1, nil
			continue
		}
		total = reply.Total
		for _, have := range reply.Items {
			q := have.queue(vhost)
			q.Consumed = have.Consumers > 0
			all = append(all, Listed{q, have.load()})
		}
		if page >= reply.Pages {
			return all, nil
		}
	}
}

// largestMessage is the most bytes that Next reads: a broker takes 16 MiB by default, and base64 adds a third.
const largestMessage = 256 << 20

// Next reads the next message of a queue, as the API shows it: JSON with the body in base64, on one line. Unless it
// takes the message off, the message returns to the head.
func (c *API) Next(ctx context.Context, vhost, queue string, takeOff bool) ([]byte, error) {
	mode := "ack_requeue_true"
	if takeOff {
		mode = "ack_requeue_false"
	}
	get := Request{
		Method: http.MethodPost, Path: []string{"queues", vhost, queue, "get"},
		Body: map[string]any{"count": 1, "ackmode": mode, "encoding": "base64"},
	}
	var messages []json.RawMessage
	if err := c.ask(ctx, get, largestMessage, &messages); err != nil {
		return nil, err
	}
	if len(messages) != 1 {
		return nil, fmt.Errorf("the next message of queue %q: %w", queue, ErrNoObject)
	}
	var line bytes.Buffer
	err := json.Compact(&line, messages[0])
	return line.Bytes(), err
}

// Load is the work of a queue now. Its numbers are up to 5 s old.
type Load struct {
	Ready     int // messages in the queue
	Unacked   int // messages that consumers hold
	Consumers int

	// DeadLettering is how many rejected messages a quorum queue keeps until its dead-letter route takes them
	// (at-least-once). It is up to 10 s old. AMQP counts them nowhere: they are neither ready nor unacked.
	DeadLettering int

	// Messages a second: published to the queue, handed to consumers, acked by them.
	In, Out, Acked float64

	// Taken is how many messages left the queue with an ack, or needed none, since the broker began to count. It begins
	// with its start, and again some time after the queue was last used. Taken excludes messages that expired or were
	// purged.
	Taken int64
}

// With is the load of two queues together.
func (l Load) With(more Load) Load {
	return Load{
		Ready: l.Ready + more.Ready, Unacked: l.Unacked + more.Unacked, Consumers: l.Consumers + more.Consumers,
		DeadLettering: l.DeadLettering + more.DeadLettering, In: l.In + more.In, Out: l.Out + more.Out,
		Acked: l.Acked + more.Acked, Taken: l.Taken + more.Taken,
	}
}

// Load returns the load of a queue. It is an error if the API is that of another broker than the one conn leads to. It
// is ErrNotFound if the API knows no such queue; a queue that was declared a few seconds ago may be unknown to it.
func (c *API) Load(ctx context.Context, conn *amqp.Connection, queue string) (Load, error) {
	if err := c.Serves(ctx, conn); err != nil {
		return Load{}, fmt.Errorf("management API: %w", err)
	}
	l, err := c.load(ctx, conn.Config.Vhost, queue)
	if errors.Is(err, ErrNoObject) {
		return l, fmt.Errorf("%w: %q in virtual host %q", ErrNotFound, queue, conn.Config.Vhost)
	}
	if err != nil {
		return l, fmt.Errorf("management API: %w", err)
	}
	return l, nil
}

func (c *API) load(ctx context.Context, vhost, queue string) (Load, error) {
	// without a column that exists, the reply is []
	reply, err := fetch[loadReply](ctx, c, "?columns=name,"+loadColumns, "queues", vhost, queue)
	return reply.load(), err
}

// loadColumns are those of a loadReply.
const loadColumns = "messages_ready,messages_unacknowledged,messages_dlx,consumers,message_stats"

// loadReply is a load as the API shows it. What never happened is absent.
type loadReply struct {
	Ready     int `json:"messages_ready"`
	Unacked   int `json:"messages_unacknowledged"`
	DLX       int `json:"messages_dlx"`
	Consumers int `json:"consumers"`
	Stats     object[struct {
		In           object[rate] `json:"publish_details"`
		Out          object[rate] `json:"deliver_get_details"`
		AckRate      object[rate] `json:"ack_details"`
		Acked        int64        `json:"ack"`
		GotNoAck     int64        `json:"get_no_ack"`
		DeliverNoAck int64        `json:"deliver_no_ack"`
	}] `json:"message_stats"`
}

type rate struct {
	Rate float64 `json:"rate"`
}

func (l loadReply) load() Load {
	s := l.Stats.is
	return Load{
		Ready: l.Ready, Unacked: l.Unacked, DeadLettering: l.DLX, Consumers: l.Consumers,
		In: s.In.is.Rate, Out: s.Out.is.Rate, Acked: s.AckRate.is.Rate,
		Taken: s.Acked + s.GotNoAck + s.DeliverNoAck,
	}
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

// State returns the state of a queue, or ErrNoObject.
func (c *API) State(ctx context.Context, vhost, queue string) (State, error) {
	return fetch[State](ctx, c, "", "queues", vhost, queue)
}

// Consumer is a consumer as the API shows it.
type Consumer struct {
	Tag       string `json:"consumer_tag"`
	Acks      bool   `json:"ack_required"`
	Active    *bool  `json:"active"` // it gets messages; else it waits for a single active consumer to end
	Prefetch  int64  `json:"prefetch_count"`
	Arguments Table  `json:"arguments"`
	Channel   object[struct {
		Connection string `json:"connection_name"`
	}] `json:"channel_details"`
}

// Connection is the name of its connection; empty if its channel is closing.
func (c Consumer) Connection() string { return c.Channel.is.Connection }

// Priority is its x-priority; 0 if it has none.
func (c Consumer) Priority() int64 { return Integer(c.Arguments[ArgPriority]) }

// Milliseconds is n ms, or the longest duration.
func Milliseconds(n int64) time.Duration {
	return time.Duration(min(n, math.MaxInt64/int64(time.Millisecond))) * time.Millisecond
}
