package counter

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Finding is one thing that is wrong with the store.
type Finding struct {
	Code   string // stable, such as "store-evicts"
	Severe bool   // steps fail, now or soon; else counts may be lost
	Seen   string // what was found
	Why    string // what comes of it
	Fix    string // what to change
}

// Examine asks the store for more than Check does, and writes nothing: which commands this user lacks, whether each server
// (of a Cluster each master) is a master, may evict, saves, has room, and is new enough. Nothing is returned if all is well.
// What may not be asked is a finding, too. The error is one of the store, after which nothing is known; it is not about the
// clocks, for times are the store's own.
func (a *Admin) Examine(ctx context.Context) ([]Finding, error) {
	if a.refuse != nil {
		return nil, a.refuse
	}
	if err := a.rdb.Ping(ctx).Err(); err != nil && !lacks(err) {
		return nil, fmt.Errorf("counter: examine: %w", a.storeError(err))
	}
	lacking, err := a.lacking(ctx)
	if err != nil {
		return nil, fmt.Errorf("counter: examine: %w", a.storeError(err))
	}
	findings := a.permissionRule(lacking)
	err = a.eachServer(ctx, func(ctx context.Context, server *redis.Client) error {
		found, err := examineServer(ctx, server)
		for _, f := range found {
			if !slices.Contains(findings, f) {
				findings = append(findings, f)
			}
		}
		return err
	})
	if err != nil && (!lacks(err) || len(lacking) == 0) { // what is lacking is found already
		return findings, fmt.Errorf("counter: examine: %w", a.storeError(err))
	}
	return findings, nil
}

// eachServer calls f with every server that steps may go to, one after the other.
func (c *client) eachServer(ctx context.Context, f func(context.Context, *redis.Client) error) error {
	switch rdb := c.rdb.(type) {
	case *redis.Client:
		return f(ctx, rdb)
	case *redis.ClusterClient:
		turn := make(chan struct{}, 1)
		return rdb.ForEachMaster(ctx, func(ctx context.Context, server *redis.Client) error {
			turn <- struct{}{}
			defer func() { <-turn }()
			return f(ctx, server)
		})
	}
	return nil
}

func examineServer(ctx context.Context, server *redis.Client) ([]Finding, error) {
	text, err := server.Info(ctx).Result()
	if lacks(err) {
		return []Finding{{
			Code: "store-not-seen",
			Seen: "this user may not ask the store about itself (INFO)",
			Why:  "whether it evicts, saves, is a master and has room was not looked at",
			Fix:  "ACL SETUSER the user +info, or run the doctor as another user",
		}}, nil
	}
	if err != nil {
		return nil, err
	}
	info := serverInfo{text: text, at: server.Options().Addr}
	if info.field("aof_enabled") == "0" {
		got, err := server.ConfigGet(ctx, "save").Result()
		save, told := got["save"]
		info.savesNothing = err == nil && told && save == ""
	}
	return info.judge(), nil
}

// serverInfo is what INFO says of one server.
type serverInfo struct {
	text         string
	at           string // its address
	savesNothing bool   // neither append-only file nor snapshots
}

func (i serverInfo) field(name string) string { return infoField(i.text, name) }

// size is a field in bytes; 0 if it is not told.
func (i serverInfo) size(name string) uint64 {
	n, _ := strconv.ParseUint(i.field(name), 10, 64)
	return n
}

// judge must not judge what a server does not tell as if it did.
func (i serverInfo) judge() []Finding {
	var out []Finding
	for _, rule := range []func(serverInfo) (Finding, bool){
		versionRule, roleRule, evictionRule, memoryRule, persistenceRule, savingRule,
	} {
		if f, found := rule(i); found {
			out = append(out, f)
		}
	}
	return out
}

func versionRule(i serverInfo) (Finding, bool) {
	release := i.field("redis_version") // Valkey tells one that it is compatible with
	var major int
	if _, err := fmt.Sscanf(release, "%d.", &major); err != nil {
		return Finding{}, false
	}
	return Finding{
		Code: "store-version", Severe: true,
		Seen: fmt.Sprintf("the store %s is Redis %s", i.at, release),
		Why:  "the steps were tested on no Redis before 6.0.16",
		Fix:  "use Redis 6.0 or later, or Valkey",
	}, major < 6
}

func roleRule(i serverInfo) (Finding, bool) {
	return Finding{
		Code: "store-replica", Severe: true,
		Seen: fmt.Sprintf("the store %s is a replica, of %s:%s", i.at, i.field("master_host"), i.field("master_port")),
		Why:  "a replica takes no writes: no failure can be counted, and each is held until its session ends",
		Fix:  "give the master's address, or have Sentinel find it (redis+sentinel://HOST:PORT?master_name=NAME)",
	}, i.field("role") == "slave"
}

func evictionRule(i serverInfo) (Finding, bool) {
	policy := i.field("maxmemory_policy")
	return Finding{
		Code: "store-evicts",
		Seen: fmt.Sprintf("the maxmemory-policy of the store %s is %s", i.at, policy),
		Why:  "it may evict records, and then their messages get a new budget",
		Fix:  "redis-cli CONFIG SET maxmemory-policy noeviction, and the same in redis.conf",
	}, policy != "" && policy != "noeviction"
}

// nearlyFull is the part of maxmemory, in percent, from which on it is said.
const nearlyFull = 90

func memoryRule(i serverInfo) (Finding, bool) {
	used, most := i.size("used_memory"), i.size("maxmemory")
	return Finding{
		Code: "store-memory", Severe: most > 0 && used >= most,
		Seen: fmt.Sprintf("the store %s uses %d of %d bytes", i.at, used, most),
		Why:  "when it is full it takes no writes: no failure can be counted, and each is held until its session ends",
		Fix:  "redis-cli CONFIG SET maxmemory with more, or find out what fills it (redis-cli --bigkeys): a record takes some 600 bytes",
	}, most > 0 && used*100 >= most*nearlyFull
}

func persistenceRule(i serverInfo) (Finding, bool) {
	return Finding{
		Code: "store-volatile",
		Seen: fmt.Sprintf("the store %s keeps nothing on disk", i.at),
		Why:  "a restart loses all counts, and every failing message gets a new budget",
		Fix:  "redis-cli CONFIG SET appendonly yes, and the same in redis.conf",
	}, i.savesNothing
}

func savingRule(i serverInfo) (Finding, bool) {
	var failed []string
	for _, name := range []string{"rdb_last_bgsave_status", "aof_last_bgrewrite_status", "aof_last_write_status"} {
		if i.field(name) == "err" {
			failed = append(failed, name)
		}
	}
	return Finding{
		Code: "store-save-failed", Severe: true,
		Seen: fmt.Sprintf("the store %s failed to write to its disk (%s)", i.at, strings.Join(failed, ", ")),
		Why:  "it takes no writes until it can (MISCONF), and a restart loses what was counted since",
		Fix:  "look into its log; make room on its disk, or mend the permissions of its directory",
	}, len(failed) > 0
}
