package topology

import (
	"os/exec"
	"strings"
	"testing"
	"unicode"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/internal/queueinfo"
)

func commands(f facts) map[string]string {
	out := map[string]string{}
	for _, x := range judge(f, Need{Queue: f.Name, MaxRetries: 3}) {
		out[x.Code] = x.Command
	}
	return out
}

// One policy takes the place of another, so all that a policy mends is in one.
func TestOnePolicyMendsAll(t *testing.T) {
	f := examined()
	f.Args = amqp.Table{queueinfo.ArgType: "quorum", "x-max-length": int64(9)}
	f.PolicyName, f.Policy = "all", amqp.Table{"message-ttl": int64(5)}
	f.policies.user = []apiPolicy{{Name: "all", Pattern: ".*", ApplyTo: "all", Priority: 7, Definition: amqp.Table{"message-ttl": int64(5)}}}
	got := commands(f)
	const want = `curl -fsS -u 'ops' -X PUT -H 'content-type: application/json' -d '{"apply-to":"queues","definition":` +
		`{"dead-letter-exchange":"q.dlx","dead-letter-strategy":"at-least-once","delivery-limit":1000,"message-ttl":5,"overflow":"reject-publish"},` +
		`"pattern":"^q$","priority":8}' 'http://h:15672/api/policies/a%2Fb/strikes.q'`
	line := got[codeNoDeadLetterExchange]
	if got[codeLimitTight] != line || got[codeDropsHead] != line || !strings.HasSuffix(line, " && "+want) {
		t.Errorf("got %q", got)
	}
	if way := strings.Count(line, " && "); way != 3 {
		t.Errorf("an exchange, a queue, a binding and a policy: %s", got[codeNoDeadLetterExchange])
	}
}

// What is not known, or cannot be done, is not written down as a command.
func TestNoCommand(t *testing.T) {
	tests := []struct {
		name string
		f    []func(*facts)
		code string
	}{
		{"no API", changes(without(queueinfo.ArgDeadLetterExchange), func(f *facts) { f.console = console{} }), codeNoDeadLetterExchange},
		{"policies not known", changes(without(queueinfo.ArgDeadLetterExchange), func(f *facts) { f.policies.known = false }), codeNoDeadLetterExchange},
		{"by argument", changes(with(queueinfo.ArgDeliveryLimit, int64(5))), codeLimitLow},
		{"by argument and a lower policy", changes(with(queueinfo.ArgDeliveryLimit, int64(5)), policy("delivery-limit", int64(3))), codeLimitLow},
		{"strategy by argument", changes(with(queueinfo.ArgStrategy, "at-most-once")), codeAtMostOnce},
	}
	for _, tt := range tests {
		f := examined()
		for _, change := range tt.f {
			change(&f)
		}
		got := commands(f)
		if command, found := got[tt.code]; !found || command != "" {
			t.Errorf("%s: got %q", tt.name, got)
		}
	}
}

// A hostile name must reach the API as it is, and run nothing.
func TestCommandsQuote(t *testing.T) {
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip("there is no shell to read the command")
	}
	f := examined()
	f.Name = `a'; echo hacked; '$(echo b)`
	bound("fanout")(&f)
	line := commands(f)["dead-letter-unbound"]
	if line == "" {
		t.Fatal("no command")
	}
	out, err := exec.CommandContext(t.Context(), "sh", "-c", `curl() { printf '%s\n' "$@"; }; `+line).Output()
	if err != nil {
		t.Fatal(err)
	}
	text := string(out)
	if strings.Contains("\n"+text, "\nhacked\n") || strings.Count(text, "-X\n") != 2 ||
		!strings.Contains(text, "\nhttp://h:15672/api/queues/a%2Fb/a%27%3B%20echo%20hacked%3B%20%27$%28echo%20b%29.dlq\n") {
		t.Errorf("the shell read %s", text)
	}
}

// What raises a delivery limit raises it above the retries that are wanted, by a policy where one can, and changes nothing else.
func TestRaisedLimitHasRoom(t *testing.T) {
	f := examined()
	f.Args = amqp.Table{queueinfo.ArgType: "quorum", queueinfo.ArgDeliveryLimit: int64(5000)}
	f.PolicyName, f.Policy = "all", amqp.Table{"delivery-limit": int64(9)}
	f.policies.user = []apiPolicy{{Name: "all", Pattern: ".*", ApplyTo: "all", Definition: f.Policy}}
	found := judgeBy([]rule{deliveryLimitRule}, f, Need{Queue: f.Name, MaxRetries: 1000})
	if len(found) != 1 || !strings.Contains(found[0].Command, `"definition":{"delivery-limit":1100}`) || !strings.Contains(found[0].Fix, "delivery-limit=1100 in policy") {
		t.Errorf("got %+v", found)
	}
}

// A command is on one line of what a terminal shows, whatever the names in it.
func TestCommandIsPrintable(t *testing.T) {
	f := examined()
	for _, change := range changes(with(queueinfo.ArgDeadLetterKey, "k\u202e\x1b"), bound("fanout")) {
		change(&f)
	}
	command := commands(f)["dead-letter-unbound"]
	if command == "" || strings.ContainsFunc(command, func(r rune) bool { return !unicode.IsPrint(r) }) {
		t.Errorf("got %q", command)
	}
}
