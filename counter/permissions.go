package counter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// needed are the commands that the steps and an Admin send, including those of the scripts. %s is a key of one queue: a
// user may be allowed a command but not the keys.
var needed = []string{
	"ping", "evalsha x 1 %s", "eval x 1 %s", "time", "get %s", "set %s v", "hset %s f v", "hincrby %s f 1",
	"pexpire %s 1", "pttl %s",
	"zadd %s 1 m", "zrem %s m", "zrangebyscore %s 0 1", "hgetall %s", "hmget %s f", "zremrangebyscore %s 0 1",
	"zrevrangebyscore %s 1 0", "zcount %s 0 1", "zcard %s", "mget %s", "del %s",
}

// neededOfCluster are the other commands that go-redis sends to a Cluster: to find the masters, to follow a slot that
// moves, and to learn where commands have their keys. It works without the last, but asks again at each step.
var neededOfCluster = []string{"cluster slots", "asking", "command"}

// needed are the commands that this store's user must be able to run.
func (c *client) needed() []string {
	if c.cluster != nil {
		return slices.Concat(needed, neededOfCluster)
	}
	return needed
}

// permission is the ACL name of a command of needed.
func permission(command string) string {
	words := strings.Fields(command)
	if words[0] == "cluster" {
		return words[0] + "|" + words[1]
	}
	return words[0]
}

// permitted returns the commands that this user may not run, without running them. Redis before 7.0 cannot tell.
var permitted = redis.NewScript(`
local lacking = {}
if not redis.acl_check_cmd then return lacking end
for i, line in ipairs(ARGV) do
  local words = {}
  for word in string.gmatch(line, '%S+') do words[#words + 1] = word end
  if not redis.acl_check_cmd(unpack(words)) then lacking[#lacking + 1] = line end
end
return lacking`)

// lacking returns the commands that this user may not run.
func (c *client) lacking(ctx context.Context) ([]string, error) {
	key := c.opts.queueKey("doctor", "doctor") + "index"
	var lines []any
	for _, command := range c.needed() {
		lines = append(lines, strings.ReplaceAll(command, "%s", key))
	}
	lacking, err := permitted.Eval(ctx, c.rdb, []string{key}, lines...).StringSlice()
	if lacks(err) {
		return []string{denied(err)}, nil
	}
	for i, command := range lacking {
		lacking[i] = permission(command)
	}
	return lacking, err
}

// denied returns the command in the text of a NOPERM: a Cluster client sends others before the script. Without a
// command in the text, the script's keys were denied.
func denied(err error) string {
	if _, rest, ok := strings.Cut(err.Error(), "'"); ok {
		command, _, _ := strings.Cut(rest, "'")
		return command
	}
	return "eval"
}

// lacks reports whether the user logged in but may not run the command.
func lacks(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply) && strings.HasPrefix(reply.Error(), "NOPERM")
}

// setUser is the command that gives a user the least permissions.
func (c *client) setUser() string {
	var permissions []string
	for _, command := range c.needed() {
		permissions = append(permissions, "+"+permission(command))
	}
	glob := strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`)
	return fmt.Sprintf("ACL SETUSER <user> ~%s:* +select +info %s", glob.Replace(c.opts.Prefix),
		strings.Join(permissions, " "))
}
