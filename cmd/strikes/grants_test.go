package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/internal/servertest"
)

// grants are the permissions of a command in docs/cli.md. Q, Q.dlq and Q.dlx stand for names, "default" for the
// default exchange.
type grants struct {
	configure, write, read string
	tag                    string // of the user, for the management API
	store                  string // Redis commands besides those of the connection
}

const (
	reads        = "evalsha eval time mget hgetall pttl"
	listsRecords = reads + " zrevrangebyscore"
	countsDead   = listsRecords + " zcount"
	allSteps     = "evalsha eval time get set hset hincrby pexpire pttl zadd zrem zrangebyscore hgetall " +
		"zrevrangebyscore del hmget zremrangebyscore zcount mget zcard"
)

// TestGrants runs each command as a user who has exactly the permissions in docs/cli.md.
func TestGrants(t *testing.T) {
	servertest.Long(t)
	t.Parallel()
	for _, tc := range []struct {
		args   []string
		grants grants
		out    string // on stdout
		err    string // on stderr
	}{
		{[]string{"declare", "Q"}, grants{configure: "Q Q.dlx Q.dlq", write: "Q.dlx Q.dlq", read: "Q Q.dlx"},
			"quorum queue", ""},
		{[]string{"publish", "Q"}, grants{write: "default"}, "", "1 confirmed"},
		{[]string{"consume", "Q", "--exit-when-idle", "1s", "--", "true"}, grants{read: "Q", tag: "management",
			store: allSteps}, "", ""},
		{[]string{"status", "Q"}, grants{tag: "management", store: countsDead}, "Q.dlq holds", ""},
		{[]string{"status", "Q", "--dead-letter-queue", "Q.dlq"}, grants{read: "Q Q.dlq", store: countsDead}, "holds 2", ""},
		{[]string{"status", "--limit", "0"}, grants{tag: "management", store: countsDead}, "m3, attempt 2", ""},
		{[]string{"dead", "list", "Q"}, grants{tag: "management", store: countsDead}, "no stock", ""},
		{[]string{"dead", "list", "--groups", "Q"}, grants{tag: "management", store: countsDead}, "no stock", ""},
		{[]string{"dead", "list", "--error", "no stock", "Q"}, grants{tag: "management", store: countsDead}, "no stock", ""},
		{[]string{"dead", "list", "--dead-letter-queue", "Q.dlq", "Q"}, grants{read: "Q.dlq", store: countsDead}, "no stock",
			""},
		{[]string{"dead", "list", "--read", "Q"}, grants{read: "Q.dlq", tag: "management", store: listsRecords}, "no stock",
			""},
		{[]string{"dead", "list", "--no-store", "Q"}, grants{read: "Q.dlq", tag: "management"}, "rejected", ""},
		{[]string{"dead", "show", "Q", "m1"}, grants{store: listsRecords}, "no stock", ""},
		{[]string{"dead", "show", "--read", "Q", "m1"}, grants{read: "Q.dlq", tag: "management", store: listsRecords},
			"no stock", ""},
		{[]string{"dead", "replay", "Q", "m1", "--yes", "--watch", "0"}, grants{read: "Q.dlq", write: "default",
			tag: "management", store: allSteps}, "", "1 replayed"},
		{[]string{"dead", "drop", "Q", "m1", "--yes", "--to", "FILE"}, grants{read: "Q.dlq", tag: "management",
			store: allSteps}, "", "1 dropped"},
		{[]string{"doctor", "Q"}, grants{read: "Q", tag: "management", store: allSteps}, "queue Q", ""},
		{[]string{"counter", "list", "Q"}, grants{store: listsRecords}, "no stock", ""},
		{[]string{"counter", "get", "Q", "m1"}, grants{store: listsRecords}, "no stock", ""},
		{[]string{"counter", "reset", "Q", "m1", "--yes", "--why", "r"}, grants{store: allSteps}, "", ""},
		{[]string{"pause", "Q", "--why", "r"}, grants{tag: "management", store: allSteps}, "Q: paused", ""},
		{[]string{"pause", "Q", "--why", "r", "--yes"}, grants{store: allSteps}, "Q: paused", ""},
		{[]string{"skip", "Q", "m3", "--yes", "--why", "r"}, grants{store: allSteps}, "m3: skipped", ""},
		{[]string{"audit", "Q"}, grants{store: listsRecords}, "set limit", ""},
		{[]string{"limit", "clear", "Q"}, grants{store: allSteps}, "", ""},
		{[]string{"limit", "set", "Q", "--max-retries", "4", "--why", "r"}, grants{read: "Q", tag: "management",
			store: allSteps}, "", ""},
		{[]string{"limit", "set", "Q", "--id", "m3", "--max-retries", "4", "--why", "r"}, grants{read: "Q", tag: "management",
			store: allSteps}, "", ""},
	} {
		t.Run(strings.Join(tc.args, " "), func(t *testing.T) {
			t.Parallel() // most of it is waiting
			queue := newQueue(t)
			if tc.args[0] != "declare" {
				mustOutput(t, strikesOn(t, queue, "declare", queue))
				buryFew(t, queue)
				mustOutput(t, strikesOn(t, queue, "limit", "set", queue, "--max-retries", "7", "--why", "r"))
			}
			cmd := asUser(t, queue, tc.args, tc.grants)
			var stdout, stderr bytes.Buffer
			cmd.Stdout, cmd.Stderr = &stdout, &stderr
			err := cmd.Run()
			if tc.err != "" && cmd.ProcessState.ExitCode() == cli.ExitNothing {
				err = nil // it was allowed to find nothing
			}
			out := strings.ReplaceAll(stdout.String(), queue, "Q")
			if err != nil || !strings.Contains(out, tc.out) || !strings.Contains(stderr.String(), tc.err) {
				t.Errorf("%v\n%s\n%s", err, out, &stderr)
			}
		})
	}
}

// TestPublishMayNotSeePartitions: a user who may not ask for partitions is not told that there are none.
func TestPublishMayNotSeePartitions(t *testing.T) {
	servertest.Long(t)
	t.Parallel()
	queue := newQueue(t)
	mustOutput(t, strikesOn(t, queue, "declare", queue, "--partitions", "2"))
	servertest.DeleteLater(t, append(broker.Partitions(queue, 2), broker.HashExchange(queue, 2))...)
	cmd := asUser(t, queue, []string{"publish", "Q", "--routing-key", "k"}, grants{write: "default"})
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState.ExitCode() != cli.ExitDenied {
		t.Errorf("%v: %s", err, out)
	}
}

// TestNextStepWithoutGrants: a user of broker and store who may do nothing is told what to do, whatever the command.
func TestNextStepWithoutGrants(t *testing.T) {
	queue := newQueue(t)
	mustOutput(t, strikesOn(t, queue, "declare", queue))
	const byDoctor, byDocs = "; an administrator of the store must allow it: strikes doctor prints the command",
		"docs/cli.md#permissions lists the permissions of "
	for line, want := range map[string]string{
		"pause Q --why r --yes": byDoctor, "skip Q m3 --why r --yes": byDoctor, "counter list Q": byDoctor,
		"counter reset Q m3 --why r --yes": byDoctor, "dead list Q": byDoctor, "audit Q": byDoctor,
		"publish Q": byDocs, "declare Q.dlq": byDocs,
		"doctor Q": "ACL SETUSER", "dead replay Q --all --yes --no-store": "lacks the configure permission on it",
	} {
		cmd := asUser(t, queue, strings.Fields(line), grants{})
		var stderr, stdout bytes.Buffer
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		if err := cmd.Run(); err == nil || !strings.Contains(stdout.String()+stderr.String(), want) {
			t.Errorf("%s: %v: %s%s", line, err, &stdout, &stderr)
		}
	}
}

// buryFew makes two dead letters with records, and the record of a message that has failed.
func buryFew(t *testing.T, queue string) {
	t.Helper()
	publishLines(t, queue, `{"id":"m1","body":"1"}`+"\n"+`{"id":"m2","body":"2"}`, "--ndjson")
	mustOutput(t, strikesOn(t, queue, "consume", queue, "--max-retries", "0", "--exit-when-idle", "1s", "--", "sh", "-c",
		"echo no stock >&2; exit 1"))
	store := storeOf(t, storeURL(t), queue)
	a := counter.Attempt{Message: counter.Message{VHost: "/", Queue: queue, ID: "m3"}, Token: "t"}
	if _, err := store.Fail(t.Context(), a, counter.Failure{Limit: 4, Reason: "no stock"}); err != nil {
		t.Fatal(err)
	}
}

// asUser is a command line of a user of broker and store who has only these grants.
func asUser(t *testing.T, queue string, args []string, g grants) *exec.Cmd {
	t.Helper()
	user := "u" + uuid.NewString()
	api := managementURL(t)
	servertest.Administer(t, http.MethodPut, api+"/api/users/"+user, fmt.Sprintf(`{"password":"pass","tags":%q}`, g.tag))
	t.Cleanup(func() { servertest.Administer(t, http.MethodDelete, api+"/api/users/"+user, "") })
	servertest.Administer(t, http.MethodPut, api+"/api/permissions/%2F/"+user,
		fmt.Sprintf(`{"configure":%q,"write":%q,"read":%q}`, pattern(queue, g.configure), pattern(queue, g.write),
			pattern(queue, g.read)))
	rdb := redisOf(t, storeURL(t))
	rules := []any{"ACL", "SETUSER", user, "on", ">pass", "~" + queue + ":*", "+select", "+info", "+ping"}
	for _, name := range strings.Fields(g.store) {
		rules = append(rules, "+"+name)
	}
	need(t, rdb.Do(t.Context(), rules...).Err())
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		rdb.Do(ctx, "ACL", "DELUSER", user)
		_ = rdb.Close()
	})
	var line []string
	for _, arg := range args {
		switch arg {
		case "Q", "Q.dlq":
			arg = queue + arg[1:]
		case "FILE":
			arg = t.TempDir() + "/kept"
		}
		line = append(line, arg)
	}
	cmd := strikesOn(t, queue, line...)
	cmd.Env = append(cmd.Env, "AMQP_URL="+withUser(t, brokerURL(t), user), "REDIS_URL="+withUser(t, storeURL(t), user))
	if g.tag != "" {
		cmd.Env = append(cmd.Env, "STRIKES_MANAGEMENT_URL="+withUser(t, api, user))
	}
	if args[0] == "publish" {
		cmd.Stdin = strings.NewReader("one\n")
	}
	return cmd
}

// pattern is the regular expression with which RabbitMQ matches names.
func pattern(queue, names string) string {
	var all []string
	for _, name := range strings.Fields(names) {
		name = strings.Replace(strings.Replace(name, "Q", queue, 1), "default", "amq.default", 1)
		all = append(all, regexp.QuoteMeta(name))
	}
	return "^(" + strings.Join(all, "|") + ")$"
}

func withUser(t *testing.T, rawURL, user string) string {
	t.Helper()
	u, err := url.Parse(rawURL)
	need(t, err)
	u.User = url.UserPassword(user, "pass")
	return u.String()
}
