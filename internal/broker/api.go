package broker

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/internal/setting"
	"github.com/strikesmq/strikes/internal/shell"
)

const (
	requestTimeout = 5 * time.Second
	mostBytes      = 64 << 20 // as many as all bindings of a virtual host may take
)

var (
	// ErrNoObject says that the API replied 404.
	ErrNoObject = errors.New("not found")

	// ErrDenied says that the API rejects its user, or hides the object of the request. Give the user the tag management
	// and access to the virtual host.
	ErrDenied = errors.New("the user needs the tag management and access to the virtual host")

	// ErrURL says that the URL does not lead to the API.
	ErrURL = errors.New("the URL is wrong")

	errBadRequest = errors.New("400 Bad Request") // for example to a page beyond the last
)

var errLogin = fmt.Errorf("the password is wrong, the user does not exist, or %w", ErrDenied)

// API reads the HTTP API of a broker's management plugin. It reports facts that AMQP cannot: policies, bindings,
// consumers, and rates. It is safe for concurrent use.
type API struct {
	base           string // without user, password and trailing slash
	user, password string
	client         *http.Client
}

// NewAPI returns a client of the API at this URL. Without a user it sends guest and its usual password. A nil client
// means one that keeps no connections, because the API is asked at a start and then rarely. An error never quotes the
// URL, which may hold a password.
func NewAPI(base string, client *http.Client) (*API, error) {
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		const like = "a URL like http://user:password@host:15672" //nolint:gosec // no password
		return nil, &setting.FieldError{Field: "Management", Value: "one that cannot be read", Want: like}
	}
	c := &API{user: "guest", password: "guest", client: client}
	if u.User != nil {
		c.user = u.User.Username()
		c.password, _ = u.User.Password()
	}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	c.base = strings.TrimRight(u.String(), "/")
	if c.client == nil {
		c.client = &http.Client{Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true}}
	}
	return c, nil
}

// Request is one to /api/<Path>.
type Request struct {
	Method string
	Body   any // nil: none
	Path   []string
	query  string
}

// fetch decodes the reply to GET /api/<path>.
func fetch[T any](ctx context.Context, c *API, query string, path ...string) (out T, err error) {
	err = c.ask(ctx, Request{Method: http.MethodGet, Path: path, query: query}, mostBytes, &out)
	return out, err
}

// Send makes a request whose reply says nothing.
func (c *API) Send(ctx context.Context, r Request) error { return c.ask(ctx, r, 0, nil) }

// ask sends a request, and decodes most bytes of the reply into out unless it is nil. Its error has neither the
// password nor the URL's query.
func (c *API) ask(ctx context.Context, r Request, most int64, out any) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	where := c.base + "/api" + escape(r.Path)
	failed := func(err error) error { return fmt.Errorf("%s %s: %w", r.Method, where, err) }
	var content io.Reader
	if r.Body != nil {
		text, err := json.Marshal(r.Body)
		if err != nil {
			return failed(err)
		}
		content = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, r.Method, where+r.query, content)
	if err != nil {
		return errors.New("the URL of the management API is invalid")
	}
	req.SetBasicAuth(c.user, c.password)
	req.Header.Set("Content-Type", "application/json")
	res, err := c.client.Do(req)
	if err != nil {
		var quotes *url.Error
		if errors.As(err, &quotes) {
			err = quotes.Err
		}
		switch {
		case strings.Contains(err.Error(), "malformed HTTP"):
			err = fmt.Errorf("%w: the server did not answer as HTTP: correct the port, which is usually 15672", ErrURL)
		case strings.Contains(err.Error(), "server gave HTTP response to HTTPS client"):
			err = fmt.Errorf("%w: the server does not speak TLS: write http:// instead of https://", ErrURL)
		case errors.As(err, new(*net.OpError)), errors.Is(err, context.DeadlineExceeded):
			err = fmt.Errorf("the server is out of reach: %w; enable the plugin rabbitmq_management, or correct host and port",
				err)
		case errors.Is(err, io.EOF):
			err = fmt.Errorf("the server closed the connection without a reply: correct the port, which is usually 15672 (%w)",
				err)
		}
		return failed(err)
	}
	defer res.Body.Close()
	switch res.StatusCode {
	case http.StatusOK, http.StatusCreated, http.StatusNoContent:
	default:
		return failed(c.refusal(res))
	}
	if out == nil {
		return nil
	}
	if err := json.NewDecoder(io.LimitReader(res.Body, most)).Decode(out); err != nil {
		return failed(fmt.Errorf("the reply is not the JSON expected: %w", err))
	}
	return nil
}

// refusal is why the API refuses a request. RabbitMQ 4 says the same of an unknown user and a wrong password.
func (c *API) refusal(res *http.Response) error {
	var says struct {
		Reason string      `json:"reason"`
		Alarms alarmsError `json:"alarms"`
	}
	why := ErrDenied
	if json.NewDecoder(io.LimitReader(res.Body, mostBytes)).Decode(&says) == nil && says.Reason != "Not management user" {
		why = errLogin
	}
	switch res.StatusCode {
	case http.StatusNotFound:
		return ErrNoObject
	case http.StatusForbidden:
		return fmt.Errorf("%s: user %q: %w", res.Status, c.user, ErrDenied)
	case http.StatusUnauthorized:
		return fmt.Errorf("%s: user %q: %w", res.Status, c.user, why)
	case http.StatusServiceUnavailable:
		if len(says.Alarms) > 0 {
			return fmt.Errorf("%s: %w", res.Status, says.Alarms)
		}
		return fmt.Errorf("%s: it does not serve requests now", res.Status)
	case http.StatusBadRequest:
		return fmt.Errorf("%w: %s", errBadRequest, cmp.Or(says.Reason, "it gives no reason"))
	}
	return errors.New(res.Status)
}

// Curl returns a request as a line for a shell, without data if it has no body. The shell reads the password from
// RABBITMQ_PASSWORD: curl would ask for it, and take the next pasted line for the answer. A nil client returns an
// empty line.
func (c *API) Curl(r Request) string {
	if c == nil {
		return ""
	}
	data := ""
	if r.Body != nil {
		content, err := json.Marshal(r.Body)
		if err != nil {
			return ""
		}
		data = " -H 'content-type: application/json' -d " + shell.Quote(string(content))
	}
	return fmt.Sprintf(`curl -fsS -u %s:"${RABBITMQ_PASSWORD:?}" -X %s%s %s`, shell.Quote(c.user), r.Method, data,
		shell.Quote(c.base+"/api"+escape(r.Path)))
}

// escape joins path segments that may hold anything, "/" included. A plus sign is escaped because some versions read it
// as a space. A segment . or .. is escaped too, because clients and proxies would take it for a step in the path.
func escape(segments []string) string {
	var b strings.Builder
	for _, s := range segments {
		s = strings.ReplaceAll(url.PathEscape(s), "+", "%2B")
		if s == "." || s == ".." {
			s = strings.ReplaceAll(s, ".", "%2E")
		}
		b.WriteString("/" + s)
	}
	return b.String()
}

// Serves returns nil if the API is that of the broker which the connection leads to.
func (c *API) Serves(ctx context.Context, conn *amqp.Connection) error {
	have, err := fetch[struct{ Name string }](ctx, c, "", "cluster-name")
	if errors.Is(err, ErrNoObject) {
		err = fmt.Errorf("%w: %w: correct host and port, and write them without /api", err, ErrURL)
	}
	if err != nil {
		return err
	}
	if want, _ := conn.Properties["cluster_name"].(string); want != "" && have.Name != want {
		return fmt.Errorf("it serves cluster %q, but the AMQP connection leads to %q", have.Name, want)
	}
	return nil
}

// Alarm is a resource that a node has too little of. Meanwhile the whole cluster blocks connections that publish.
type Alarm struct {
	Node     string `json:"node"`
	Resource string `json:"resource"` // "memory" or "disk"
}

// Alarms returns the alarms of all nodes. It asks the health check, because GET /api/nodes needs the tag monitoring
// and shows an alarm up to 5 s late.
func (c *API) Alarms(ctx context.Context) ([]Alarm, error) {
	var on alarmsError
	if _, err := fetch[struct{}](ctx, c, "", "health", "checks", "alarms"); !errors.As(err, &on) {
		return nil, err
	}
	for i := range on {
		on[i].Resource = strings.TrimSuffix(on[i].Resource, " space") // RabbitMQ 3.10 and 4.3 say "disk space" and "disk"
	}
	return on, nil
}

// alarmsError is a health check that failed, with the alarms that are on.
type alarmsError []Alarm

func (e alarmsError) Error() string { return fmt.Sprintf("alarms are on: %v", []Alarm(e)) }

// object is a JSON object in a reply. RabbitMQ makes objects of Erlang lists of pairs, so it writes an empty one as
// [] in some places: for example the channel_details of a consumer whose channel is closing. Such an object has the
// zero T, or an empty map. Every field of a reply that holds an object has this type, or is a Table.
type object[T any] struct{ is T }

// UnmarshalJSON takes an object, [] or null. Null leaves the zero T.
func (o *object[T]) UnmarshalJSON(data []byte) error {
	if inside, ok := bytes.CutPrefix(bytes.TrimSpace(data), []byte("[")); ok && bytes.Equal(bytes.TrimSpace(inside),
		[]byte("]")) {
		data = []byte("{}")
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	return decoder.Decode(&o.is)
}

// Table is an object that AMQP would give as an amqp.Table. Its whole numbers are int64.
type Table map[string]any

// UnmarshalJSON takes an object, [] or null.
func (t *Table) UnmarshalJSON(data []byte) error {
	var o object[map[string]any]
	if err := o.UnmarshalJSON(data); err != nil {
		return err
	}
	for k, v := range o.is {
		if n, ok := v.(json.Number); ok {
			if i, err := n.Int64(); err == nil {
				o.is[k] = i
			} else {
				o.is[k], _ = n.Float64()
			}
		}
	}
	*t = o.is
	return nil
}

// Exchange is an exchange as the API shows it.
type Exchange struct {
	Name      string `json:"name"` // empty: the default exchange
	Type      string `json:"type"`
	Arguments Table  `json:"arguments"`
	Policy    string `json:"policy"` // its name
}

const exchangeColumns = "?columns=name,type,arguments,policy"

// Exchange returns an exchange, or ErrNoObject.
func (c *API) Exchange(ctx context.Context, vhost, name string) (Exchange, error) {
	return fetch[Exchange](ctx, c, exchangeColumns, "exchanges", vhost, name)
}

// Exchanges lists the exchanges of a virtual host.
func (c *API) Exchanges(ctx context.Context, vhost string) ([]Exchange, error) {
	return fetch[[]Exchange](ctx, c, exchangeColumns, "exchanges", vhost)
}

// Binding is a binding as the API shows it.
type Binding struct {
	Source          string `json:"source"`
	Destination     string `json:"destination"`
	DestinationType string `json:"destination_type"` // "queue" or "exchange"
	Key             string `json:"routing_key"`
	Arguments       Table  `json:"arguments"`
}

// Bindings returns the bindings from an exchange.
func (c *API) Bindings(ctx context.Context, vhost, exchange string) ([]Binding, error) {
	return fetch[[]Binding](ctx, c, "", "exchanges", vhost, exchange, "bindings", "source")
}

// AllBindings lists the bindings of a virtual host, with those of the default exchange.
func (c *API) AllBindings(ctx context.Context, vhost string) ([]Binding, error) {
	return fetch[[]Binding](ctx, c, "?columns=source,destination,destination_type,routing_key,arguments", "bindings",
		vhost)
}
