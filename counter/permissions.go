package counter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// needed are the commands that the steps and the operators' calls send, the scripts' own included. With the keys of one
// queue as %s: a user may have a command and not the keys.
var needed = []string{
	"ping", "evalsha x 1 %s", "eval x 1 %s", "time", "get %s", "set %s v", "hget %s f", "hset %s f v", "hincrby %s f 1", "pexpire %s 1", "pttl %s",
	"zadd %s 1 m", "zrem %s m", "zrangebyscore %s 0 1", "hgetall %s", "zrevrangebyscore %s 1 0", "zscan %s 0", "del %s", "multi", "exec",
}

// neededOfCluster are the commands that go-redis sends to a Cluster beside those: to find the masters, to follow a slot that
// moves, and to learn where commands have their keys. It works without the last, but asks again at each step.
var neededOfCluster = []string{"cluster slots", "asking", "command"}

// needed are the commands that this store's user must be able to run.
func (c *client) needed() []string {
	if c.cluster != nil {
		return slices.Concat(needed, neededOfCluster)
	}
	return needed
}

// right is what a user is given for a command of needed.
func right(command string) string {
	words := strings.Fields(command)
	if words[0] == "cluster" {
		return words[0] + "|" + words[1]
	}
	return words[0]
}

// permitted asks of commands whether this user may run them, and runs none. Redis before 7.0 cannot be asked.
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
		lacking[i] = right(command)
	}
	return lacking, err
}

// denied returns the command that a NOPERM names: a client of a Cluster sends others before the script. Without a name the
// script's keys were denied.
func denied(err error) string {
	if _, rest, ok := strings.Cut(err.Error(), "'"); ok {
		command, _, _ := strings.Cut(rest, "'")
		return command
	}
	return "eval"
}

// lacks reports whether the user may not run the command, though it could log in.
func lacks(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply) && strings.HasPrefix(reply.Error(), "NOPERM")
}

func (c *client) permissionRule(lacking []string) []Finding {
	if len(lacking) == 0 {
		return nil
	}
	return []Finding{{
		Code: "store-acl", Severe: true,
		Seen: "this user of the store may not run " + strings.Join(lacking, ", ") + fmt.Sprintf(" on keys that begin with %q", c.opts.Prefix+":"),
		Why:  "the steps that need it fail, and messages that have failed are held until their session ends",
		Fix:  "as an administrator of the store: " + c.grant(),
	}}
}

// grant is the least that a user must be given.
func (c *client) grant() string {
	var rights []string
	for _, command := range c.needed() {
		rights = append(rights, "+"+right(command))
	}
	glob := strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`)
	return fmt.Sprintf("ACL SETUSER <user> ~%s:* +select +info %s", glob.Replace(c.opts.Prefix), strings.Join(rights, " "))
}
