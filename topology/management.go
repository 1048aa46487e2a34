package topology

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/internal/queueinfo"
)

const (
	requestTimeout = 5 * time.Second
	maxAnswer      = 4 << 20 // bytes; a dead-letter exchange with that many bindings is judged unknown
)

// management reads the HTTP API of one broker.
type management struct {
	base           string // without user, password and trailing slash
	user, password string
	client         *http.Client
}

func newManagement(base string, client *http.Client) (*management, error) {
	u, err := url.Parse(base)
	// The error of Parse quotes what it was given, the password included.
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("topology: %w", &FieldError{Field: "Management", Value: "one that cannot be read", Want: "a URL like http://user:password@host:15672"}) //nolint:gosec // no password
	}
	m := &management{user: "guest", password: "guest", client: client}
	if u.User != nil {
		m.user = u.User.Username()
		m.password, _ = u.User.Password()
	}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	m.base = strings.TrimRight(u.String(), "/")
	if m.client == nil {
		m.client = briefClient()
	}
	return m, nil
}

// briefClient leaves no idle connection behind: the API is asked at a start,
// and then not again.
func briefClient() *http.Client {
	t := &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true}
	return &http.Client{Transport: t}
}

// errNoSuch: the API answered 404.
var errNoSuch = errors.New("not found")

// ErrManagementDenied is wrapped by the errors of [List] and [TryManagement]
// when the management API does not let its user in, or not see what was asked:
// give the user the tag management and access to the virtual host.
var ErrManagementDenied = errors.New("the user needs the tag management and access to the virtual host")

// get decodes the answer to GET /api/<segments> into out. Its error has neither
// password nor the URL's query.
func (m *management) get(ctx context.Context, out any, query string, segments ...string) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	where := m.base + "/api" + escape(segments)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, where+query, nil)
	if err != nil {
		return errors.New("the management API's URL cannot be used")
	}
	req.SetBasicAuth(m.user, m.password)
	res, err := m.client.Do(req)
	if err != nil {
		var failed *url.Error
		if errors.As(err, &failed) {
			err = failed.Err
		}
		return fmt.Errorf("GET %s: %w", where, err)
	}
	defer res.Body.Close()
	switch res.StatusCode {
	case http.StatusOK:
	case http.StatusNotFound:
		return fmt.Errorf("GET %s: %w", where, errNoSuch)
	case http.StatusUnauthorized, http.StatusForbidden:
		return fmt.Errorf("GET %s: %s: user %q: %w", where, res.Status, m.user, denial(res))
	default:
		return fmt.Errorf("GET %s: %s", where, res.Status)
	}
	decoder := json.NewDecoder(io.LimitReader(res.Body, maxAnswer))
	decoder.UseNumber()
	if err := decoder.Decode(out); err != nil {
		return fmt.Errorf("GET %s: the answer is not the JSON expected: %w", where, err)
	}
	return nil
}

// denial tells a user that the API does not know by that password from one that it lets do nothing. RabbitMQ 4 says the same
// of both.
func denial(res *http.Response) error {
	var says struct {
		Reason string `json:"reason"`
	}
	err := json.NewDecoder(io.LimitReader(res.Body, maxAnswer)).Decode(&says)
	if err == nil && res.StatusCode == http.StatusUnauthorized && says.Reason != "Not management user" {
		return errLogin
	}
	return ErrManagementDenied
}

// errLogin is an ErrManagementDenied.
var errLogin error = loginError{}

type loginError struct{}

func (loginError) Error() string {
	return "the password is wrong, or there is no such user, or it lacks the tag management"
}
func (loginError) Unwrap() error { return ErrManagementDenied }

// escape joins path segments that may hold anything, "/" included. A plus sign
// is escaped because some versions read it as a space.
func escape(segments []string) string {
	var b strings.Builder
	for _, s := range segments {
		b.WriteString("/" + strings.ReplaceAll(url.PathEscape(s), "+", "%2B"))
	}
	return b.String()
}

// apiQueue is a queue as the API shows it. Policy is nil until the API knows
// what policy applies, which is 2 to 10 s after a queue was declared; it is
// empty where none does.
type apiQueue struct {
	Type       string     `json:"type"`
	Durable    bool       `json:"durable"`
	AutoDelete bool       `json:"auto_delete"`
	Exclusive  bool       `json:"exclusive"`
	Arguments  amqp.Table `json:"arguments"`
	PolicyName string     `json:"policy"`
	Policy     amqp.Table `json:"effective_policy_definition"`

	OperatorPolicy string `json:"operator_policy"` // its name
}

func (q apiQueue) declared() queueinfo.Declared {
	return queueinfo.Declared{Type: q.Type, Durable: q.Durable, AutoDelete: q.AutoDelete, Args: q.Arguments}
}

func (m *management) queue(ctx context.Context, vhost, name string) (apiQueue, error) {
	const columns = "?columns=type,durable,auto_delete,exclusive,arguments,policy,operator_policy,effective_policy_definition"
	var q apiQueue
	if err := m.get(ctx, &q, columns, "queues", vhost, name); err != nil {
		return apiQueue{}, err
	}
	integers(q.Arguments)
	integers(q.Policy)
	return q, nil
}

// apiExchange is an exchange as the API shows it.
type apiExchange struct {
	Type      string     `json:"type"`
	Arguments amqp.Table `json:"arguments"`
	Policy    string     `json:"policy"` // its name
}

func (m *management) exchange(ctx context.Context, vhost, name string) (apiExchange, error) {
	var x apiExchange
	err := m.get(ctx, &x, "?columns=type,arguments,policy", "exchanges", vhost, name)
	return x, err
}

// apiBinding is a binding as the API shows it.
type apiBinding struct {
	Destination     string `json:"destination"`
	DestinationType string `json:"destination_type"` // "queue" or "exchange"
	Key             string `json:"routing_key"`

	Source     string     `json:"source"`
	Arguments  amqp.Table `json:"arguments"`
	Properties string     `json:"properties_key"` // its name among those with the same source and destination
}

func (m *management) bindings(ctx context.Context, vhost, exchange string) ([]apiBinding, error) {
	var all []apiBinding
	err := m.get(ctx, &all, "", "exchanges", vhost, exchange, "bindings", "source")
	return all, err
}

// bindingsTo returns the bindings of a queue, with that to the default exchange.
func (m *management) bindingsTo(ctx context.Context, vhost, queue string) ([]apiBinding, error) {
	var all []apiBinding
	err := m.get(ctx, &all, "", "queues", vhost, queue, "bindings")
	return all, err
}

// serves returns nil if the API is that of the broker the connection leads to.
func (m *management) serves(ctx context.Context, conn *amqp.Connection) error {
	want, _ := conn.Properties["cluster_name"].(string)
	have, err := m.cluster(ctx)
	if err == nil && want != "" && have != want {
		return fmt.Errorf("it is that of cluster %q, the AMQP connection leads to %q", have, want)
	}
	return err
}

func (m *management) cluster(ctx context.Context) (string, error) {
	var c struct{ Name string }
	err := m.get(ctx, &c, "", "cluster-name")
	return c.Name, err
}

// integers makes the numbers of a table what AMQP would give.
func integers(t amqp.Table) {
	for k, v := range t {
		if n, ok := v.(json.Number); ok {
			if i, err := n.Int64(); err == nil {
				t[k] = i
			} else {
				t[k], _ = n.Float64()
			}
		}
	}
}
