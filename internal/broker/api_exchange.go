package broker

import "context"

// Exchange is an exchange as the API shows it.
type Exchange struct {
	Name      string `json:"name"` // empty: the default exchange
	Type      string `json:"type"`
	Arguments Table  `json:"arguments"`
	Policy    string `json:"policy"` // its name
}

const exchangeColumns = "?columns=name,type,arguments,policy"

// Exchange returns an exchange, or ErrNoObject.
func (c *API) Exchange(ctx context.Context, vhost, name string) (x Exchange, err error) {
	err = c.get(ctx, &x, exchangeColumns, "exchanges", vhost, name)
	return x, err
}

// Exchanges lists the exchanges of a virtual host.
func (c *API) Exchanges(ctx context.Context, vhost string) (all []Exchange, err error) {
	err = c.get(ctx, &all, exchangeColumns, "exchanges", vhost)
	return all, err
}

// Binding is a binding as the API shows it.
type Binding struct {
	Source          string `json:"source"`
	Destination     string `json:"destination"`
	DestinationType string `json:"destination_type"` // "queue" or "exchange"
	Key             string `json:"routing_key"`
	Arguments       Table  `json:"arguments"`
	Properties      string `json:"properties_key"` // its name among those with the same source and destination
}

// Bindings returns the bindings from an exchange.
func (c *API) Bindings(ctx context.Context, vhost, exchange string) (all []Binding, err error) {
	err = c.get(ctx, &all, "", "exchanges", vhost, exchange, "bindings", "source")
	return all, err
}

// BindingsTo returns the bindings to a queue, with that of the default exchange.
func (c *API) BindingsTo(ctx context.Context, vhost, queue string) (all []Binding, err error) {
	err = c.get(ctx, &all, "", "queues", vhost, queue, "bindings")
	return all, err
}

// AllBindings lists the bindings of a virtual host, with those of the default exchange.
func (c *API) AllBindings(ctx context.Context, vhost string) (all []Binding, err error) {
	err = c.get(ctx, &all, "?columns=source,destination,destination_type,routing_key,arguments,properties_key",
		"bindings", vhost)
	return all, err
}
