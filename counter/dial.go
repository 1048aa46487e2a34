package counter

import (
	"cmp"
	"context"
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

// timeout of one read or write. A store that takes longer is treated as away, and the step is taken again.
const timeout = 250 * time.Millisecond

// onePool gives a client no second pool for pipelines: after a failover each pool has to find the new master for itself.
const onePool = -1

// Dial returns a Counter on a client of its own, set up so that an outage of the store is felt at once and handled by the
// consumer, which knows for how long a delivery may be held. Nothing is connected yet: use Check. Close closes the client.
//
//	redis://[user:password@]host[:port][/db]                               one server; rediss for TLS, unix for a socket
//	redis+sentinel://[user:password@]host[:port][/db]?master_name=NAME     behind Sentinel; host is a sentinel
//	redis+cluster://[user:password@]host[:port]?addr=HOST:PORT             a Cluster
//
// The last two have TLS forms, rediss+sentinel and rediss+cluster, and take more hosts as addr=HOST:PORT. The certificate of
// each server must match the name or address by which the others announce it. With Sentinel,
// user and password are the sentinels'; the servers' are the parameters username and password. Timeouts are 250 ms
// (read, write) and 1 s (dial), changed by the parameters read_timeout, write_timeout and dial_timeout. The others are
// client_name, protocol, pool_size, pool_fifo, pool_timeout, min_idle_conns, max_idle_conns, max_active_conns,
// conn_max_idle_time, conn_max_lifetime; db except for a Cluster; and for rediss and rediss+sentinel skip_verify, which trusts
// any certificate (SSL_CERT_FILE in the environment names authorities to trust). A FieldError refuses anything that would be
// ignored. In a password, / ? # and @ must be percent-encoded. An error never contains it. A nil opts means the defaults.
func Dial(rawURL string, opts *Options) (*Counter, error) {
	rdb, err := open(rawURL)
	if err != nil {
		return nil, fmt.Errorf("counter: Redis URL %s: %w", setting.RedactURL(rawURL), err)
	}
	c := New(rdb, opts)
	c.owned, c.secrets = true, append(c.secrets, secretsIn(rawURL)...)
	if c.refuse != nil {
		return nil, errors.Join(c.refuse, rdb.Close())
	}
	return c, nil
}

const schemes = "redis://, rediss://, unix://, redis+sentinel:// or redis+cluster://"

func open(rawURL string) (redis.UniversalClient, error) {
	scheme, rest, ok := strings.Cut(rawURL, "://")
	if !ok {
		return nil, &setting.FieldError{Field: "scheme", Value: "none", Want: schemes}
	}
	base, kind, _ := strings.Cut(scheme, "+")
	if !slices.Contains([]string{"", "sentinel", "cluster"}, kind) || !slices.Contains([]string{"redis", "rediss", "unix"}, base) {
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
	setTimeouts(&o.ReadTimeout, &o.WriteTimeout, &o.DialTimeout)
	o.Protocol = cmp.Or(o.Protocol, protocol)
	return redis.NewClient(o), nil
}

func openSentinel(rawURL string) (redis.UniversalClient, error) {
	o, err := redis.ParseFailoverURL(rawURL)
	if err != nil {
		return nil, err
	}
	if o.MasterName == "" {
		return nil, setting.New("parameter master_name", "", "what the sentinels call the master: add ?master_name=NAME")
	}
	o.MaxRetries, o.ContextTimeoutEnabled, o.DialerRetries, o.PipelinePoolSize = -1, true, 1, onePool
	setTimeouts(&o.ReadTimeout, &o.WriteTimeout, &o.DialTimeout)
	o.Protocol = cmp.Or(o.Protocol, protocol)
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
	setTimeouts(&o.ReadTimeout, &o.WriteTimeout, &o.DialTimeout)
	o.Protocol = cmp.Or(o.Protocol, protocol)
	nameEachHost(o.TLSConfig)
	return redis.NewClusterClient(o), nil
}

// nameEachHost checks the certificate of each server against the name or address by which it is dialled. go-redis would check
// all of them against the first host in the URL.
func nameEachHost(config *tls.Config) {
	if config != nil {
		config.ServerName = ""
	}
}

// protocol is RESP2, which knows no push notifications: go-redis would look for one before each reply.
const protocol = 2

func setTimeouts(read, write, dial *time.Duration) {
	for _, d := range []*time.Duration{read, write} {
		if *d == 0 {
			*d = timeout
		}
	}
	if *dial == 0 {
		*dial = time.Second
	}
}

// refuseClient says what makes a client unsafe, as far as it can be seen.
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
		return refuseSettings(c.Options().MaxRetries, c.Options().ContextTimeoutEnabled)
	case *redis.Ring:
		return fmt.Errorf("%w: a Ring moves keys to another server while theirs is down, and their counts start again: use a Cluster or Sentinel", ErrUnsafeClient)
	}
	return nil
}

func refuseSettings(maxRetries int, contextTimeout bool) error {
	if maxRetries > 0 {
		return fmt.Errorf("%w: MaxRetries is %d: set it to -1, the consumer retries a step itself", ErrUnsafeClient, maxRetries)
	}
	if !contextTimeout {
		return fmt.Errorf("%w: ContextTimeoutEnabled is false: set it to true, or a context's deadline is not obeyed", ErrUnsafeClient)
	}
	return nil
}

// Check asks the store whether it can be reached, and warns of settings that lose counts: a maxmemory-policy that
// evicts, and no persistence. What may not be asked (ACL, managed services) is not warned of. A Counter works without
// it; it takes two or three round trips.
func (c *Counter) Check(ctx context.Context) (warnings []string, err error) {
	if c.refuse != nil {
		return nil, c.refuse
	}
	if err := c.rdb.Ping(ctx).Err(); err != nil {
		return nil, fmt.Errorf("counter: check: %w", c.storeError(err))
	}
	info, err := c.rdb.Info(ctx).Result() // Redis before 7.0 takes no two sections
	if err != nil {
		return nil, nil //nolint:nilerr // what may not be asked is not warned of
	}
	if policy := infoField(info, "maxmemory_policy"); policy != "" && policy != "noeviction" {
		warnings = append(warnings, fmt.Sprintf("Redis maxmemory-policy is %s: it may evict records, and their messages get a new budget: set noeviction", policy))
	}
	if infoField(info, "aof_enabled") == "0" && c.savesNothing(ctx) {
		warnings = append(warnings, "Redis keeps nothing on disk: a restart loses all counts, and every failing message gets a new budget: set appendonly yes")
	}
	return warnings, nil
}

func (c *client) savesNothing(ctx context.Context) bool {
	got, err := c.rdb.ConfigGet(ctx, "save").Result()
	save, ok := got["save"]
	return err == nil && ok && save == ""
}

func infoField(info, name string) string {
	for line := range strings.Lines(info) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), name+":"); ok {
			return v
		}
	}
	return ""
}
