package counter

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
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
// each server is checked against the name or address by which the others announce it. With Sentinel,
// user and password are the sentinels'; the servers' are the parameters username and password. Timeouts are 250 ms
// (read, write) and 1 s (dial), changed by the parameters read_timeout, write_timeout and dial_timeout. In a password,
// / ? # and @ must be percent-encoded. An error never contains it. A nil opts means the defaults.
func Dial(rawURL string, opts *Options) (*Counter, error) {
	rdb, err := open(rawURL)
	if err != nil {
		return nil, fmt.Errorf("counter: Redis URL %s: %w", redact(rawURL), err)
	}
	c := New(rdb, opts)
	c.owned, c.secrets = true, append(c.secrets, secretsIn(rawURL)...)
	if c.refuse != nil {
		return nil, errors.Join(c.refuse, rdb.Close())
	}
	return c, nil
}

func open(rawURL string) (redis.UniversalClient, error) {
	scheme, rest, ok := strings.Cut(rawURL, "://")
	if !ok {
		return nil, errors.New("no scheme: it begins with redis://, rediss://, unix://, redis+sentinel:// or redis+cluster://")
	}
	if strings.Contains(afterHost(rest), "@") {
		return nil, errors.New("an @ after the host: in a password, write / as %2F, ? as %3F, # as %23 and @ as %40")
	}
	base, kind, _ := strings.Cut(scheme, "+")
	plain := base + "://" + rest
	if _, err := url.Parse(plain); err != nil {
		return nil, withoutURL(err)
	}
	switch {
	case kind == "sentinel":
		return openSentinel(plain)
	case kind == "cluster":
		return openCluster(plain)
	case kind != "" || base != "redis" && base != "rediss" && base != "unix":
		return nil, errors.New("unknown scheme: it is redis, rediss, unix, redis+sentinel or redis+cluster")
	}
	return openSingle(plain)
}

func openSingle(rawURL string) (redis.UniversalClient, error) {
	o, err := redis.ParseURL(rawURL)
	if err != nil {
		return nil, withoutURL(err)
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
		return nil, withoutURL(err)
	}
	if o.MasterName == "" {
		return nil, errors.New("no master_name: add ?master_name=NAME, as the sentinels call the master")
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
		return nil, withoutURL(err)
	}
	o.MaxRetries, o.ContextTimeoutEnabled, o.DialerRetries, o.MaxRedirects, o.PipelinePoolSize = -1, true, 1, 1, onePool
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	setTimeouts(&o.ReadTimeout, &o.WriteTimeout, &o.DialTimeout)
	o.Protocol = cmp.Or(o.Protocol, protocol)
	nameEachHost(o.TLSConfig)
	return redis.NewClusterClient(o), nil
}

// nameEachHost has each server prove the name or address by which it is dialled. go-redis would have all of them prove the
// name of the first host in the URL.
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

func (c *Counter) savesNothing(ctx context.Context) bool {
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

// redact returns scheme, host and path of rawURL, the parts where no password belongs. What cannot be taken apart with
// certainty is not shown at all: a password with a slash in it makes a valid URL whose path ends in "@host".
func redact(rawURL string) string {
	scheme, rest, _ := strings.Cut(rawURL, "://")
	u, err := url.Parse(rawURL)
	if err != nil || scheme == "" || !strings.EqualFold(scheme, u.Scheme) || strings.Contains(afterHost(rest), "@") {
		return "(not shown)"
	}
	shown := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}
	return shown.String()
}

// afterHost is what follows [user:password@]host[:port].
func afterHost(rest string) string {
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		return rest[i:]
	}
	return ""
}

// withoutURL keeps the reason of a parse error and drops the URL it quotes.
func withoutURL(err error) error {
	var parse *url.Error
	if errors.As(err, &parse) {
		err = parse.Err
	}
	// net/url quotes what it could not parse: an escape or a port may be part of a password
	text, _, _ := strings.Cut(err.Error(), `"`)
	return errors.New(strings.TrimSpace(text))
}
