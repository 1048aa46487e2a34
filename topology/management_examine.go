package topology

import (
	"context"
	"encoding/json"
	"strconv"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/internal/queueinfo"
)

// apiPolicy is a policy as the API shows it.
type apiPolicy struct {
	Name       string     `json:"name"`
	Pattern    string     `json:"pattern"`
	ApplyTo    string     `json:"apply-to"`
	Priority   int        `json:"priority"`
	Definition amqp.Table `json:"definition"`
}

func (m *management) policies(ctx context.Context, vhost string) (policySet, error) {
	user, err := m.policiesOf(ctx, "policies", vhost)
	if err != nil {
		return policySet{}, err
	}
	operator, err := m.policiesOf(ctx, "operator-policies", vhost)
	return policySet{known: err == nil, user: user, operator: operator}, err
}

func (m *management) policiesOf(ctx context.Context, kind, vhost string) ([]apiPolicy, error) {
	var all []apiPolicy
	if err := m.get(ctx, &all, "", kind, vhost); err != nil {
		return nil, err
	}
	for _, p := range all {
		integers(p.Definition)
	}
	return all, nil
}

// apiConsumer is a consumer as the API shows it. Its timeout is told from
// RabbitMQ 4.0 on.
type apiConsumer struct {
	Tag      string `json:"consumer_tag"`
	Acks     bool   `json:"ack_required"`
	Prefetch int64  `json:"prefetch_count"`
	Timeout  any    `json:"consumer_timeout"` // in ms; "undefined", or absent
	Channel  struct {
		Connection string `json:"connection_name"`
	} `json:"channel_details"`
}

// timeout in ms; 0 is not told.
func (c apiConsumer) timeout() int64 {
	n, _ := c.Timeout.(json.Number)
	ms, _ := n.Int64()
	return ms
}

// apiState is what goes on in a queue, as of a few seconds ago.
type apiState struct {
	Messages   int64         `json:"messages"`
	Persistent int64         `json:"messages_persistent"`
	Priorities int64         `json:"messages_active_priorities"`
	Consumers  []apiConsumer `json:"consumer_details"`
}

func (m *management) state(ctx context.Context, vhost, queue string) (apiState, error) {
	var s apiState
	err := m.get(ctx, &s, "", "queues", vhost, queue)
	return s, err
}

// listed is a queue in the API's list of a virtual host's.
type listed struct {
	Name string `json:"name"`
	apiQueue
}

// queuesPage is how many queues one answer lists; the API allows 500.
const queuesPage = 500

func (m *management) queues(ctx context.Context, vhost string) ([]target, error) {
	policies, err := m.policies(ctx, vhost)
	if err != nil {
		return nil, err
	}
	var all []target
	for page := 1; ; page++ {
		var answer struct {
			Items []listed `json:"items"`
			Pages int      `json:"page_count"`
		}
		query := "?page=" + strconv.Itoa(page) + "&page_size=" + strconv.Itoa(queuesPage)
		if err := m.get(ctx, &answer, query, "queues", vhost); err != nil {
			return nil, err
		}
		for _, q := range answer.Items {
			integers(q.Arguments)
			integers(q.Policy)
			t := target{facts{Queue: queueinfo.Queue{Name: q.Name, Exclusive: q.Exclusive, Declared: q.declared()}}}
			policies.apply(q.apiQueue, &t.facts)
			all = append(all, t)
		}
		if page >= answer.Pages {
			return all, nil
		}
	}
}
