package counter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

// Finding is one problem of the store.
type Finding struct {
	Code   string // stable, such as "store-evicts"
	Severe bool   // steps fail, now or soon; else counts may be lost
	Seen   string // the problem
	Impact string
	Fix    string
}

func (f Finding) String() string { return fmt.Sprintf("%s: %s; %s", f.Seen, f.Impact, f.Fix) }

// Check pings the store, and warns of states that lose counts: a maxmemory-policy that evicts, no persistence, and a
// save that failed. It does not warn of settings that the user may not read (ACL, managed services). It returns an
// error if the URL of one server leads to a Sentinel, or to one of several masters of a Cluster. A Counter works
// without Check, which takes two to six round trips per server.
func (c *Counter) Check(ctx context.Context) (warnings []string, err error) {
	var found []Finding
	if c.rdb == nil {
		found, err = c.store.Examine(ctx)
	} else if err = c.ping(ctx); err != nil {
		err = c.storeError(err)
	} else if found, err = c.examineServers(ctx); isOtherKind(err) {
		err = c.storeError(err)
	} else {
		err = nil // settings that cannot be read do no harm
	}
	if err != nil {
		return nil, c.unchecked(err)
	}
	for _, f := range found {
		// Redis: a setting that this user may not read is no warning.
		if c.rdb == nil && !f.Severe || slices.Contains(losing, f.Code) {
			warnings = append(warnings, f.String())
		}
	}
	return warnings, nil
}

// losing are the findings about a Redis that loses counts.
var losing = []string{"store-evicts", "store-volatile", "store-save-failed"}

// ping asks whether the store replies. A Redis that could not save refuses a PING like a write, and still takes reads.
func (c *client) ping(ctx context.Context) error {
	err := c.rdb.Ping(ctx).Err()
	if redis.HasErrorPrefix(err, "MISCONF") {
		err = c.rdb.Time(ctx).Err()
	}
	return err
}

// unchecked returns the error of a check with the remedy for the faults of a URL. A database has its own for a refused
// password.
func (c *client) unchecked(err error) error {
	var failed *StoreError
	switch {
	case !errors.As(err, &failed):
	case failed.Fault == FaultUnreachable:
		return fmt.Errorf("counter: check: %w; start the store, or correct host and port in the URL", err)
	case failed.Fault == FaultSlow && c.tls: // a Redis without TLS waits for the rest of a command
		return fmt.Errorf("counter: check: %w; if the store does not speak TLS, write redis in place of rediss in the URL",
			err)
	case failed.Fault == FaultSlow:
		return fmt.Errorf("counter: check: %w; if the store is up, correct host and port in the URL", err)
	case failed.Fault == FaultDenied && c.rdb != nil && !lacks(err):
		return fmt.Errorf("counter: check: %w; correct user and password in the URL of %s: "+
			"redis://USER:PASSWORD@HOST:PORT/DB", err, cmp.Or(c.host, "the store"))
	}
	return fmt.Errorf("counter: check: %w", err)
}

// Examine examines the store further than Check, without writing: which commands this user lacks, and whether each
// server (each master of a Cluster) is a master, evicts, saves, has room, and is new enough. It returns nothing if all
// is well. A setting that the user may not read is a finding too. After an error nothing is known. On Redis clocks are
// not compared: times are the store's own.
func (a *Admin) Examine(ctx context.Context) ([]Finding, error) {
	found, err := a.store.Examine(ctx)
	if err != nil {
		return found, fmt.Errorf("counter: examine: %w", err)
	}
	return found, nil
}

// Examine is that of Store.
func (s redisStore) Examine(ctx context.Context) ([]Finding, error) {
	if err := s.ping(ctx); err != nil && !lacks(err) {
		return nil, s.storeError(err)
	}
	found, err := s.examineServers(ctx)
	if isOtherKind(err) {
		return nil, s.storeError(err)
	}
	lacking, unknown := s.lacking(ctx)
	if unknown != nil {
		return nil, s.storeError(unknown)
	}
	if len(lacking) > 0 {
		found = append([]Finding{{
			Code: "store-acl", Severe: true,
			Seen: fmt.Sprintf("this user of the store may not run %s on keys that begin with %q", strings.Join(lacking, ", "),
				s.opts.Prefix+":"),
			Impact: "the steps that need it fail, and failed messages are held until their session ends",
			Fix:    "run as an administrator of the store: " + s.setUser(),
		}}, found...)
	}
	if err != nil && (!lacks(err) || len(lacking) == 0) { // else a finding says it already
		return found, s.storeError(err)
	}
	return found, nil
}

// examineServers returns the faults of the servers that receive steps, each once.
func (c *client) examineServers(ctx context.Context) (findings []Finding, err error) {
	err = c.eachServer(ctx, func(ctx context.Context, server *redis.Client) error {
		info, err := inspect(ctx, server)
		if err == nil {
			err = c.otherKind(ctx, server, info)
		}
		found := info.findings()
		if lacks(err) {
			found, err = []Finding{{
				Code:   "store-not-seen",
				Seen:   "this user lacks the permission for the command INFO",
				Impact: "the doctor cannot check eviction, persistence, role and memory of the store",
				Fix:    "ACL SETUSER the user +info, or run the doctor as another user",
			}}, nil
		}
		for _, f := range found {
			if !slices.Contains(findings, f) {
				findings = append(findings, f)
			}
		}
		return err
	})
	return findings, err
}

// otherKind returns an error if the server is a Sentinel, or one of several masters of a Cluster that is asked alone.
// Such a master refuses keys of the others with MOVED. A proxy may also say that it is a Cluster, and takes all keys.
func (c *client) otherKind(ctx context.Context, server *redis.Client, info serverInfo) error {
	switch {
	case info.field("redis_mode") == "sentinel":
		return errSentinel
	case c.cluster == nil && info.field("cluster_enabled") == "1":
		replies, _ := server.Pipelined(ctx, func(p redis.Pipeliner) error { // if this is denied, a step gets the MOVED
			for slot := range 32 {
				p.PTTL(ctx, fmt.Sprintf("%s:{%d}", c.opts.Prefix, slot))
			}
			return nil
		})
		if slices.ContainsFunc(replies, func(r redis.Cmder) bool { return redis.HasErrorPrefix(r.Err(), "MOVED") }) {
			return errCluster
		}
	}
	return nil
}

// eachServer calls f with every server that receives steps, one after the other.
func (c *client) eachServer(ctx context.Context, f func(context.Context, *redis.Client) error) error {
	switch rdb := c.rdb.(type) {
	case *redis.Client:
		return f(ctx, rdb)
	case *redis.ClusterClient:
		var turn sync.Mutex
		return rdb.ForEachMaster(ctx, func(ctx context.Context, server *redis.Client) error {
			turn.Lock()
			defer turn.Unlock()
			return f(ctx, server)
		})
	}
	return nil
}

// inspect asks a server about itself.
func inspect(ctx context.Context, server *redis.Client) (serverInfo, error) {
	text, err := server.Info(ctx).Result() // Redis before 7.0 does not accept two sections
	info := serverInfo{text: text, at: server.Options().Addr}
	if info.at == "FailoverClient" { // go-redis's name for the master, whose address only the sentinels know
		info.at = behindSentinel
	}
	if info.field("aof_enabled") == "0" {
		got, err := server.ConfigGet(ctx, "save").Result()
		save, known := got["save"]
		info.savesNothing = err == nil && known && save == ""
	}
	if info.field(goodReplicas) != "" {
		got, _ := server.ConfigGet(ctx, "min-replicas-to-write").Result()
		info.leastReplicas, _ = strconv.ParseUint(got["min-replicas-to-write"], 10, 64)
	}
	return info, err
}

// serverInfo is the INFO of one server.
type serverInfo struct {
	text         string
	at           string // its address, or behindSentinel
	savesNothing bool   // neither append-only file nor snapshots

	leastReplicas uint64 // with fewer good ones it refuses writes; 0: it does not, or this user may not ask
}

const behindSentinel = "behind Sentinel"

// goodReplicas is the field that counts the replicas that keep up. INFO has it only if the server wants some.
const goodReplicas = "min_slaves_good_slaves"

// field is a field of INFO; empty if it is missing.
func (i serverInfo) field(name string) string {
	for line := range strings.Lines(i.text) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), name+":"); ok {
			return v
		}
	}
	return ""
}

// size is a number; 0 if it is missing.
func (i serverInfo) size(name string) uint64 {
	n, _ := strconv.ParseUint(i.field(name), 10, 64)
	return n
}

// cli is the client of the store's server, for a shell. It lacks the user and the password.
func (i serverInfo) cli() string {
	host, port, err := net.SplitHostPort(i.at)
	switch {
	case i.at == behindSentinel:
		host, port = "MASTER", i.field("tcp_port")
	case err != nil: // a socket
		return "redis-cli -s " + i.at
	}
	return "redis-cli -h " + host + " -p " + port
}

// nearlyFull is the part of maxmemory, in percent, from which a server is reported.
const nearlyFull = 90

// findings are the faults of the server. A field that is missing is none.
func (i serverInfo) findings() (found []Finding) {
	var major int
	release := i.field("redis_version") // Valkey reports one that it is compatible with
	_, unknown := fmt.Sscanf(release, "%d.", &major)
	policy := i.field("maxmemory_policy")
	used, most, good := i.size("used_memory"), i.size("maxmemory"), i.size(goodReplicas)
	var failed []string
	for _, name := range []string{"rdb_last_bgsave_status", "aof_last_bgrewrite_status", "aof_last_write_status"} {
		if i.field(name) == "err" {
			failed = append(failed, name)
		}
	}
	for _, f := range []struct {
		is bool
		Finding
	}{
		{unknown == nil && major < 6, Finding{
			Code: "store-version", Severe: true,
			Seen:   fmt.Sprintf("the store %s is Redis %s", i.at, release),
			Impact: "the steps are not tested on a Redis before 6.0.16",
			Fix:    "use Redis 6.0 or later, or Valkey",
		}},
		{i.field("role") == "slave", Finding{
			Code: "store-replica", Severe: true,
			Seen:   fmt.Sprintf("the store %s is a replica of %s:%s", i.at, i.field("master_host"), i.field("master_port")),
			Impact: "a replica refuses writes: no failure is counted, and failed messages are held until their session ends",
			Fix:    "use the master's address, or let Sentinel find it (redis+sentinel://HOST:PORT?master_name=NAME)",
		}},
		{policy != "" && policy != "noeviction", Finding{
			Code:   "store-evicts",
			Seen:   fmt.Sprintf("the maxmemory-policy of the store %s is %s", i.at, policy),
			Impact: "it may evict records, and their messages get all their attempts again",
			Fix:    "run " + i.cli() + " CONFIG SET maxmemory-policy noeviction, and set the same in redis.conf",
		}},
		{most > 0 && used*100 >= most*nearlyFull, Finding{
			Code: "store-memory", Severe: used >= most,
			Seen: fmt.Sprintf("the store %s uses %d of %d bytes", i.at, used, most),
			Impact: "a full store refuses writes: no failure is counted, and failed messages are held until their session " +
				"ends",
			Fix: "raise maxmemory with " + i.cli() + " CONFIG SET maxmemory BYTES, or free memory: the option " +
				"--bigkeys of redis-cli finds the largest keys; a record takes about 600 bytes",
		}},
		{i.savesNothing, Finding{
			Code:   "store-volatile",
			Seen:   fmt.Sprintf("the store %s keeps nothing on disk", i.at),
			Impact: "a restart loses all counts, and every failing message gets all its attempts again",
			Fix:    "run " + i.cli() + " CONFIG SET appendonly yes, and set the same in redis.conf",
		}},
		{len(failed) > 0, Finding{
			Code: "store-save-failed", Severe: true,
			Seen:   fmt.Sprintf("the store %s failed to write to its disk (%s)", i.at, strings.Join(failed, ", ")),
			Impact: "it refuses writes until it can save (MISCONF), and a restart loses all counts since then",
			Fix:    "read its log; free space on its disk, or fix the permissions of its directory",
		}},
		{good < i.leastReplicas, Finding{
			Code: "store-few-replicas", Severe: true,
			Seen: fmt.Sprintf("the store %s has too few replicas: %d, and it writes with %d at least "+
				"(min-replicas-to-write)", i.at, good, i.leastReplicas),
			Impact: "it refuses writes (NOREPLICAS): no failure is counted, and failed messages are held until their " +
				"session ends",
			Fix: "start its replicas or repair their links, or lower the number with " + i.cli() +
				" CONFIG SET min-replicas-to-write N",
		}},
	} {
		if f.is {
			found = append(found, f.Finding)
		}
	}
	return found
}
