package counter

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/strikesmq/strikes/internal/setting"
)

// timeout of one read or write. The consumer repeats the step if the store takes longer.
const timeout = 250 * time.Millisecond

// onePool gives a client no second pool for pipelines: after a failover each pool must find the new master by itself.
const onePool = -1

// Dial returns a Counter with its own client. The client reports an outage of the store immediately; the consumer
// handles it, because it knows for how long a delivery may be held. Dial does not connect yet: use Check. Close closes
// the client. go-redis also prints each failed dial on stderr; [logging.Disable] ends that for the whole program.
//
//	redis://[user:password@]host[:port][/db]                               one server; rediss for TLS, unix for a socket
//	redis+sentinel://[user:password@]host[:port][/db]?master_name=NAME     behind Sentinel; host is a sentinel
//	redis+cluster://[user:password@]host[:port]?addr=HOST:PORT             a Cluster
//
// The last two have TLS forms, rediss+sentinel and rediss+cluster, and take more hosts as addr=HOST:PORT. The
// certificate of each server must match the name or address that the others announce for it. With Sentinel, user and
// password are those of the sentinels; the parameters username and password are those of the servers.
//
// Timeouts are 250 ms (read, write) and 1 s (dial); the parameters read_timeout, write_timeout and dial_timeout change
// them. The other parameters are client_name, protocol, pool_size, pool_fifo, pool_timeout, min_idle_conns,
// max_idle_conns, max_active_conns, conn_max_idle_time, conn_max_lifetime; db except for a Cluster; and skip_verify for
// rediss and rediss+sentinel, which trusts any certificate (the environment variable SSL_CERT_FILE names authorities to
// trust).
//
// A FieldError reports a part of the URL that is invalid or would be ignored. In a password, percent-encode / ? # and
// @. No error contains the password. A nil opts means the defaults.
//
// [logging.Disable]: https://pkg.go.dev/github.com/redis/go-redis/v9/logging#Disable
func Dial(rawURL string, opts *Options) (*Counter, error) {
	rdb, err := open(rawURL)
	if err != nil {
		return nil, fmt.Errorf("counter: Redis URL %s: %w", setting.RedactURL(rawURL), err)
	}
	c := New(rdb, opts)
	if store, is := c.store.(refusedStore); is {
		return nil, fmt.Errorf("counter: %w", errors.Join(store.why, rdb.Close()))
	}
	u, _, _ := setting.ParseURL(rawURL) // open has read it
	password, _ := u.User.Password()    // that of the sentinels, if there are some
	c.owned, c.host, c.secrets = true, u.Host, append(c.secrets, password)
	c.tls = strings.HasPrefix(u.Scheme, "rediss")
	return c, nil
}

const schemes = "redis://, rediss://, unix://, redis+sentinel:// or redis+cluster://"

func open(rawURL string) (redis.UniversalClient, error) {
	if rawURL == "" {
		return nil, setting.New("address", "", "a URL such as redis://localhost:6379")
	}
	scheme, rest, ok := strings.Cut(rawURL, "://")
	if !ok {
		return nil, &setting.FieldError{Field: "scheme", Value: "none", Want: schemes}
	}
	databases := map[string]string{"postgres": "postgres", "postgresql": "postgres", "mysql": "mysql", "mariadb": "mysql"}
	if name := databases[scheme]; name != "" {
		return nil, &setting.FieldError{Field: "scheme", Value: scheme, Want: schemes + "; for this database import " +
			"github.com/strikesmq/strikes/store/" + name + ", and pass its Open to Over"}
	}
	base, kind, _ := strings.Cut(scheme, "+")
	if !slices.Contains([]string{"", "sentinel", "cluster"}, kind) || !slices.Contains([]string{"redis", "rediss", "unix"},
		base) {
		return nil, &setting.FieldError{Field: "scheme", Value: "another", Want: schemes}
	}
	plain := base + "://" + rest
	if err := checkURL(plain, kind); err != nil {
		return nil, err
	}
	switch kind {
	case "sentinel":
		return openSentinel(plain)
	case "cluster":
		return openCluster(plain)
	}
	return openSingle(plain)
}

func openSingle(rawURL string) (redis.UniversalClient, error) {
	o, err := redis.ParseURL(rawURL)
	if err != nil {
		return nil, err
	}
	o.MaxRetries, o.ContextTimeoutEnabled, o.DialerRetries, o.PipelinePoolSize = -1, true, 1, onePool
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	o.ReadTimeout, o.WriteTimeout = cmp.Or(o.ReadTimeout, timeout), cmp.Or(o.WriteTimeout, timeout)
	o.DialTimeout, o.Protocol = cmp.Or(o.DialTimeout, time.Second), cmp.Or(o.Protocol, protocol)
	return redis.NewClient(o), nil
}

func openSentinel(rawURL string) (redis.UniversalClient, error) {
	o, err := redis.ParseFailoverURL(rawURL)
	if err != nil {
		return nil, err
	}
	if o.MasterName == "" {
		return nil, setting.New("parameter master_name", "", "the sentinels' name of the master: add ?master_name=NAME")
	}
	o.MaxRetries, o.ContextTimeoutEnabled, o.DialerRetries, o.PipelinePoolSize = -1, true, 1, onePool
	o.ReadTimeout, o.WriteTimeout = cmp.Or(o.ReadTimeout, timeout), cmp.Or(o.WriteTimeout, timeout)
	o.DialTimeout, o.Protocol = cmp.Or(o.DialTimeout, time.Second), cmp.Or(o.Protocol, protocol)
	nameEachHost(o.TLSConfig)
	return redis.NewFailoverClient(o), nil
}

func openCluster(rawURL string) (redis.UniversalClient, error) {
	o, err := redis.ParseClusterURL(rawURL)
	if err != nil {
		return nil, err
	}
	o.MaxRetries, o.ContextTimeoutEnabled, o.DialerRetries, o.MaxRedirects, o.PipelinePoolSize = -1, true, 1, 1, onePool
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	o.ReadTimeout, o.WriteTimeout = cmp.Or(o.ReadTimeout, timeout), cmp.Or(o.WriteTimeout, timeout)
	o.DialTimeout, o.Protocol = cmp.Or(o.DialTimeout, time.Second), cmp.Or(o.Protocol, protocol)
	nameEachHost(o.TLSConfig)
	return redis.NewClusterClient(o), nil
}

// nameEachHost compares the certificate of each server with the name or address that is dialled. go-redis would compare
// all of them with the first host in the URL.
func nameEachHost(config *tls.Config) {
	if config != nil {
		config.ServerName = ""
	}
}

// protocol is RESP2, which has no push notifications: go-redis would check for one before each reply.
const protocol = 2

// refuseClient returns why a client is unsafe, as far as its settings show.
func refuseClient(rdb redis.UniversalClient) error {
	switch c := rdb.(type) {
	case nil:
		return fmt.Errorf("%w: it is nil", ErrUnsafeClient)
	case *redis.Client:
		if c == nil {
			return fmt.Errorf("%w: it is a nil *redis.Client", ErrUnsafeClient)
		}
		return refuseSettings(c.Options().MaxRetries, c.Options().ContextTimeoutEnabled)
	case *redis.ClusterClient:
		if c == nil {
			return fmt.Errorf("%w: it is a nil *redis.ClusterClient", ErrUnsafeClient)
		}
		if o := c.Options(); o.ReadOnly || o.RouteByLatency || o.RouteRandomly {
			return fmt.Errorf("%w: ReadOnly, RouteByLatency or RouteRandomly is true, and replicas are behind their master; "+
				"set all three to false", ErrUnsafeClient)
		}
		return refuseSettings(c.Options().MaxRetries, c.Options().ContextTimeoutEnabled)
	case *redis.Ring:
		return fmt.Errorf("%w: a Ring moves keys to another server while theirs is down, and their counts start again; use "+
			"a Cluster or Sentinel", ErrUnsafeClient)
	}
	return nil
}

func refuseSettings(maxRetries int, contextTimeout bool) error {
	if maxRetries > 0 {
		return fmt.Errorf("%w: MaxRetries is %d; set it to -1, the consumer repeats steps itself", ErrUnsafeClient,
			maxRetries)
	}
	if !contextTimeout {
		return fmt.Errorf("%w: ContextTimeoutEnabled is false; set it to true, or the client ignores the deadline of "+
			"a context", ErrUnsafeClient)
	}
	return nil
}
