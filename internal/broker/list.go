package broker

import (
	"context"
	"net/url"
	"regexp"
	"strconv"
	"strings"
)

// Listed is a queue of a virtual host, with its load.
type Listed struct {
	Queue
	Load
}

// List lists the queues of a virtual host with their loads, 500 a request. Their policies are those that the API shows,
// up to 10 s late.
func (c *API) List(ctx context.Context, vhost string) ([]Listed, error) {
	const columns = "&columns=" + queueColumns + "," + loadColumns
	var all []Listed
	for page := 1; ; page++ {
		var reply struct {
			Items []struct {
				queueReply
				loadReply
			} `json:"items"`
			Pages int `json:"page_count"`
		}
		query := "?page=" + strconv.Itoa(page) + "&page_size=" + strconv.Itoa(queuesPage) + columns
		if err := c.get(ctx, &reply, query, "queues", vhost); err != nil {
			return nil, err
		}
		for _, have := range reply.Items {
			all = append(all, Listed{have.queue().listed(vhost), have.load()})
		}
		if page >= reply.Pages {
			return all, nil
		}
	}
}

// Names returns the names of queues of a virtual host that begin with a prefix, 500 at most.
func (c *API) Names(ctx context.Context, vhost, prefix string) ([]string, error) {
	var reply struct {
		Items []struct {
			Name string `json:"name"`
		} `json:"items"`
	}
	query := url.Values{
		"page": {"1"}, "page_size": {strconv.Itoa(queuesPage)}, "columns": {"name"}, "use_regex": {"true"},
		"name": {"^" + regexp.QuoteMeta(prefix)},
	}
	if err := c.get(ctx, &reply, "?"+query.Encode(), "queues", vhost); err != nil {
		return nil, err
	}
	var names []string
	for _, q := range reply.Items {
		if strings.HasPrefix(q.Name, prefix) {
			names = append(names, q.Name)
		}
	}
	return names, nil
}

// listed is a queue with the policy that the API shows.
func (q ListedQueue) listed(vhost string) Queue {
	return Queue{
		Name: q.Name, VHost: vhost, Exclusive: q.Exclusive, Policy: q.Policy, PolicyKnown: q.Policy != nil,
		PolicyName: q.PolicyName,
		Declared:   Declared{Type: q.Type, Durable: q.Durable, AutoDelete: q.AutoDelete, Args: q.Arguments},
		Members:    q.Members, Online: q.Online,
	}
}

// Exchanges lists the exchanges of a virtual host by name. It names the default exchange "".
func (c *API) Exchanges(ctx context.Context, vhost string) (map[string]Exchange, error) {
	var all []struct {
		Name string `json:"name"`
		exchangeReply
	}
	if err := c.get(ctx, &all, "?columns=name,type,arguments,policy", "exchanges", vhost); err != nil {
		return nil, err
	}
	exchanges := make(map[string]Exchange, len(all))
	for _, x := range all {
		exchanges[x.Name] = x.exchange()
	}
	return exchanges, nil
}

// AllBindings lists the bindings of a virtual host, with those of the default exchange.
func (c *API) AllBindings(ctx context.Context, vhost string) ([]Binding, error) {
	return c.bindings(ctx, "?columns=source,destination,destination_type,routing_key,arguments,properties_key",
		"bindings", vhost)
}
