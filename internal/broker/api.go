// Package management reads the HTTP API of a broker's management plugin. It knows what AMQP cannot report: policies,
// bindings, consumers, and rates.
package broker

import (
	"bytes"
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

	"github.com/strikesmq/strikes/internal/setting"
)

const (
	requestTimeout = 5 * time.Second
	mostBytes      = 4 << 20 // bytes
)

var (
	// ErrNotFound says that the API replied 404.
	ErrNoObject = errors.New("not found")

	// ErrDenied says that the API rejects its user, or hides what was asked: give the user the tag management and access
	// to the virtual host.
	ErrDenied = errors.New("the user needs the tag management and access to the virtual host")
)

// errLogin is an ErrDenied.
var errLogin error = loginError{}

type loginError struct{}

func (loginError) Error() string {
	return "the password is wrong, the user does not exist, or it lacks the tag management"
}
func (loginError) Unwrap() error { return ErrDenied }

// Client reads the API of one broker. It is safe for concurrent use.
type API struct {
	base           string // without user, password and trailing slash
	user, password string
	client         *http.Client
}

// New returns a client of the API at this URL. Without a user it sends guest and its usual password. A nil client means
// one that keeps no connections, because the API is asked at a start and then rarely. An error never quotes the URL,
// which may hold a password.
func NewAPI(base string, client *http.Client) (*API, error) {
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, &setting.FieldError{Field: "Management", Value: "one that cannot be read",
			Want: "a URL like http://user:password@host:15672"} //nolint:gosec // no password
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

// get decodes the reply to GET /api/<segments> into out.
func (c *API) get(ctx context.Context, out any, query string, segments ...string) error {
	return c.ask(ctx, http.MethodGet, nil, query, segments, func(where string, body io.Reader) error {
		decoder := json.NewDecoder(io.LimitReader(body, mostBytes))
		decoder.UseNumber()
		if err := decoder.Decode(out); err != nil {
			return fmt.Errorf("GET %s: the reply is not the JSON expected: %w", where, err)
		}
		return nil
	})
}

// Send makes the request that Curl writes.
func (c *API) Send(ctx context.Context, method string, body any, segments ...string) error {
	return c.ask(ctx, method, body, "", segments, func(string, io.Reader) error { return nil })
}

// ask sends a request to /api/<segments>. Its error has neither the password nor the URL's query.
func (c *API) ask(ctx context.Context, method string, body any, query string, segments []string,
	read func(string, io.Reader) error) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	where := c.base + "/api" + escape(segments)
	var content io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return fmt.Errorf("%s %s: %w", method, where, err)
		}
		content = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, where+query, content)
	if err != nil {
		return errors.New("the URL of the management API is invalid")
	}
	req.SetBasicAuth(c.user, c.password)
	req.Header.Set("Content-Type", "application/json")
	res, err := c.client.Do(req)
	if err != nil {
		var failed *url.Error
		if errors.As(err, &failed) {
			err = failed.Err
		}
		return fmt.Errorf("%s %s: %w", method, where, err)
	}
	defer res.Body.Close()
	switch res.StatusCode {
	case http.StatusOK, http.StatusCreated, http.StatusNoContent:
		return read(where, res.Body)
	case http.StatusNotFound:
		return fmt.Errorf("%s %s: %w", method, where, ErrNoObject)
	case http.StatusUnauthorized, http.StatusForbidden:
		return fmt.Errorf("%s %s: %s: user %q: %w", method, where, res.Status, c.user, denial(res))
	case http.StatusServiceUnavailable:
		return fmt.Errorf("%s %s: %s: %w", method, where, res.Status, alarmed(res.Body))
	case http.StatusBadRequest:
		return fmt.Errorf("%s %s: %s: %s", method, where, res.Status, reasonOf(res.Body))
	}
	return fmt.Errorf("%s %s: %s", method, where, res.Status)
}

// reasonOf is why the API refuses a request.
func reasonOf(body io.Reader) string {
	var says struct {
		Reason string `json:"reason"`
	}
	if err := json.NewDecoder(io.LimitReader(body, mostBytes)).Decode(&says); err != nil || says.Reason == "" {
		return "it gives no reason"
	}
	return says.Reason
}

// denial tells a wrong login from a user who may do nothing. RabbitMQ 4 says the same of an unknown user and a wrong
// password.
func denial(res *http.Response) error {
	var says struct {
		Reason string `json:"reason"`
	}
	err := json.NewDecoder(io.LimitReader(res.Body, mostBytes)).Decode(&says)
	if err == nil && res.StatusCode == http.StatusUnauthorized && says.Reason != "Not management user" {
		return errLogin
	}
	return ErrDenied
}

// escape joins path segments that may hold anything, "/" included. A plus sign is escaped because some versions read it
// as a space.
func escape(segments []string) string {
	var b strings.Builder
	for _, s := range segments {
		b.WriteString("/" + strings.ReplaceAll(url.PathEscape(s), "+", "%2B"))
	}
	return b.String()
}

// Serves returns nil if the API is that of the broker which the connection leads to.
func (c *API) Serves(ctx context.Context, conn *amqp.Connection) error {
	var have struct{ Name string }
	if err := c.get(ctx, &have, "", "cluster-name"); err != nil {
		return err
	}
	if want, _ := conn.Properties["cluster_name"].(string); want != "" && have.Name != want {
		return fmt.Errorf("it serves cluster %q, but the AMQP connection leads to %q", have.Name, want)
	}
	return nil
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
