package doctor

import (
	"os/exec"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"
	amqp "github.com/rabbitmq/amqp091-go"
	"go.uber.org/goleak"

	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/internal/inspect"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// examined are the facts of a quorum queue as package topology declares it, in which nothing is wrong but the changes.
func examined(t *testing.T, changes ...func(*inspect.Facts)) inspect.Facts {
	t.Helper()
	api, err := broker.NewAPI("http://ops:hush@h:15672", nil)
	if err != nil {
		t.Fatal(err)
	}
	queue := broker.Queue{
		Version: broker.Version{Major: 4, Minor: 3}, VHost: "a/b", Name: "q", Policy: amqp.Table{}, PolicyKnown: true,
		Declared: broker.Declared{Type: "quorum", Durable: true, Args: amqp.Table{
			broker.ArgType: "quorum", broker.ArgDeadLetterExchange: "q.dlx", broker.ArgSingleActive: true,
			broker.ArgDeliveryLimit: int64(1000), broker.ArgStrategy: "at-least-once",
			broker.ArgOverflow: "reject-publish",
		}},
	}
	dead := queue
	dead.Name, dead.Policy, dead.Args = "q.dlq", amqp.Table{}, broker.DeadLetterArguments()
	f := inspect.Facts{
		Product: "RabbitMQ", API: api,
		Description: broker.Description{Queue: queue},
		Exchange: inspect.Exchange{Exists: broker.Yes, Kind: "fanout", Bound: true,
			Bindings: []broker.Binding{toQueue("q.dlq")}},
		Known:  inspect.NewGraph(map[string]inspect.Exchange{}, nil),
		Vitals: &inspect.Vitals{Targets: []broker.Queue{dead}},
		Route:  inspect.Route{Landings: []inspect.Landing{{Name: "q.dlq"}}},
	}
	for _, change := range changes {
		change(&f)
	}
	return f
}

func toQueue(name string) broker.Binding {
	return broker.Binding{Destination: name, DestinationType: "queue"}
}

func changes(c ...func(*inspect.Facts)) []func(*inspect.Facts) { return c }

func without(arg string) func(*inspect.Facts) { return func(f *inspect.Facts) { delete(f.Args, arg) } }

func with(name string, v any) func(*inspect.Facts) {
	return func(f *inspect.Facts) { f.Args[name] = v }
}

func policy(name string, v any) func(*inspect.Facts) {
	return func(f *inspect.Facts) { f.Policy[name] = v }
}

func bound(kind string) func(*inspect.Facts) {
	return func(f *inspect.Facts) { f.Exchange.Kind, f.Exchange.Bindings, f.Route = kind, nil, inspect.Route{} }
}

// exchange is one that is known.
func exchange(name, kind string, bindings ...broker.Binding) func(*inspect.Facts) {
	return func(f *inspect.Facts) {
		f.Known.Exchanges[name] = inspect.Exchange{Exists: broker.Yes, Kind: kind, Bound: true, Bindings: bindings}
	}
}

// keeps is a queue that is known, with pairs of arguments.
func keeps(name string, pairs ...any) func(*inspect.Facts) {
	return func(f *inspect.Facts) {
		args := amqp.Table{}
		for i := 0; i < len(pairs); i += 2 {
			args[pairs[i].(string)] = pairs[i+1]
		}
		f.Known.Queues[name] = &broker.Queue{Name: name, Declared: broker.Declared{Type: "classic", Durable: true,
			Args: args}}
	}
}

func commands(f inspect.Facts) map[string]string {
	need := inspect.Need{Queue: f.Name, MaxRetries: 3}
	out := map[string]string{}
	for _, x := range (patient{f}).plan(inspect.Judge(inspect.All, f, need), need).findings() {
		out[x.Code] = strings.Join(x.Commands, "\n")
	}
	return out
}

// One policy takes the place of another, so one policy fixes all.
func TestOnePolicyFixesAll(t *testing.T) {
	f := examined(t)
	f.Args = amqp.Table{broker.ArgType: "quorum", "x-max-length": int64(9)}
	f.PolicyName, f.Policy = "all", amqp.Table{"message-ttl": int64(5)}
	f.Policies.User = []broker.Policy{{Name: "all", Pattern: ".*", ApplyTo: "all", Priority: 7,
		Definition: broker.Table{"message-ttl": int64(5)}}}
	got := commands(f)
	const want = `curl -fsS -u 'ops':"${RABBITMQ_PASSWORD:?}" -X PUT -H 'content-type: application/json' ` +
		`-d '{"apply-to":"queues","definition":{"dead-letter-exchange":"q.dlx","dead-letter-strategy":"at-least-once",` +
		`"delivery-limit":1000,"message-ttl":5,"overflow":"reject-publish"},` +
		`"pattern":"^q$","priority":8}' 'http://h:15672/api/policies/a%2Fb/strikes.q'`
	line := got[inspect.CodeNoDeadLetterExchange]
	if got[inspect.CodeLimitTight] != line || got[inspect.CodeDropsHead] != line || !strings.HasSuffix(line, "\n"+want) {
		t.Errorf("got %q", got)
	}
	if also := strings.Count(line, "\n"); also != 4 {
		t.Errorf("an exchange, a policy for the queue that keeps its dead letters, that queue, a binding and a policy: %s",
			got[inspect.CodeNoDeadLetterExchange])
	}
}

// A fix that is not known, or cannot be made, is not written down as a command.
func TestNoCommand(t *testing.T) {
	tests := []struct {
		name string
		f    []func(*inspect.Facts)
		code string
	}{
		{"no API", changes(without(broker.ArgDeadLetterExchange), func(f *inspect.Facts) {
			f.API = nil
		}), inspect.CodeNoDeadLetterExchange},
		{"policy not known", changes(without(broker.ArgDeadLetterExchange), func(f *inspect.Facts) {
			f.PolicyKnown = false
		}), inspect.CodeDeadLetterUnproven},
		{"by argument", changes(with(broker.ArgDeliveryLimit, int64(5))), inspect.CodeLimitLow},
		{"by argument and a lower policy", changes(with(broker.ArgDeliveryLimit, int64(5)),
			policy("delivery-limit", int64(3))), inspect.CodeLimitLow},
		{"strategy by argument", changes(with(broker.ArgStrategy, "at-most-once")), inspect.CodeAtMostOnce},
		{"a stream, to which RabbitMQ applies no such policy", changes(func(f *inspect.Facts) {
			f.Declared = broker.Declared{Type: broker.Stream, Durable: true}
		}), inspect.CodeNoDeadLetterExchange},
	}
	for _, tt := range tests {
		f := examined(t, tt.f...)
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
	f := examined(t)
	f.Name = `a'; echo hacked; '$(echo b)`
	with(broker.ArgDeadLetterExchange, broker.ExchangeFor(f.Name))(&f)
	bound("fanout")(&f)
	line := commands(f)["dead-letter-unbound"]
	if line == "" {
		t.Fatal("no command")
	}
	out, err := exec.CommandContext(t.Context(), "sh", "-c", `RABBITMQ_PASSWORD=hush; curl() { printf '%s\n' "$@"; }; `+
		line).Output()
	if err != nil {
		t.Fatal(err)
	}
	text := string(out)
	if strings.Contains("\n"+text, "\nhacked\n") || strings.Count(text, "-X\n") != 2 ||
		!strings.Contains(text, "\nhttp://h:15672/api/queues/a%2Fb/a%27%3B%20echo%20hacked%3B%20%27$%28echo%20b%29.dlq\n") {
		t.Errorf("the shell read %s", text)
	}
}

// The command for a delivery limit raises it above the wanted retries, by a policy where one can, and changes nothing
// else.
func TestRaisedLimitHasRoom(t *testing.T) {
	f := examined(t)
	f.Args = amqp.Table{broker.ArgType: "quorum", broker.ArgDeliveryLimit: int64(5000)}
	f.PolicyName, f.Policy = "all", amqp.Table{"delivery-limit": int64(9)}
	f.Policies.User = []broker.Policy{{Name: "all", Pattern: ".*", ApplyTo: "all", Definition: broker.Table(f.Policy)}}
	need := inspect.Need{Queue: f.Name, MaxRetries: 1000}
	judged := inspect.Judge([]inspect.Rule{inspect.DeliveryLimitRule}, f, need)
	found := patient{f}.plan(judged, need).findings()
	if len(found) != 1 || len(found[0].Commands) != 1 || !strings.Contains(found[0].Commands[0],
		`"definition":{"delivery-limit":1100}`) || !strings.Contains(found[0].Fix, "delivery-limit=1100 in policy") {
		t.Errorf("got %+v", found)
	}
}

// A command is on one line of a terminal, whatever the names in it.
func TestCommandIsPrintable(t *testing.T) {
	f := examined(t, with(broker.ArgDeadLetterKey, "k\u202e\x1b"), bound("fanout"))
	command := commands(f)["dead-letter-unbound"]
	if command == "" || strings.ContainsFunc(command, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }) {
		t.Errorf("got %q", command)
	}
}

// A policy that takes the place of another keeps its settings.
func TestSetPolicyKeepsTheRest(t *testing.T) {
	f := examined(t)
	f.Args = amqp.Table{broker.ArgType: "classic"}
	f.Type = "classic"
	f.Policies.User = []broker.Policy{{Name: "strikes.q", Pattern: "^q", ApplyTo: "queues", Priority: 3,
		Definition: broker.Table{"max-length": int64(5), "overflow": "reject-publish"}}}
	// the API does not show it yet
	f.Type, f.PolicyKnown = "classic", true
	f.Policies.Apply(&f.Queue)
	line := commands(f)[inspect.CodeNoDeadLetterExchange]
	for _, want := range []string{
		`"definition":{"dead-letter-exchange":"q.dlx","max-length":5,"overflow":"reject-publish"}`, `"priority":4`,
		"/strikes.q.queue'"} {
		if !strings.Contains(line, want) {
			t.Errorf("%s is not in %s", want, line)
		}
	}
	f = examined(t)
	f.OperatorPolicy = amqp.Table{"delivery-limit": int64(5)}
	f.Policy, f.Args = broker.JoinPolicies(nil, f.OperatorPolicy), amqp.Table{broker.ArgType: "quorum",
		broker.ArgDeadLetterExchange: "q.dlx"}
	if line, found := commands(f)[inspect.CodeLimitLow]; !found || line != "" {
		t.Errorf("an operator's policy undoes %q", line)
	}
}

// A fix does not lead to the next error. A policy for the queue that matches its dead-letter queue too would make it
// lose or move dead letters. A queue that exists with other arguments is not declared again.
func TestPlanKeepsDeadLetters(t *testing.T) {
	matching := func(definition amqp.Table) func(*inspect.Facts) {
		return func(f *inspect.Facts) {
			f.Policies.User = []broker.Policy{{Name: "all", Pattern: "^q", ApplyTo: "all", Priority: 7,
				Definition: broker.Table(definition)}}
			f.PolicyName, f.Policy = "all", definition
		}
	}
	gone := func(f *inspect.Facts) { f.Exchange = inspect.Exchange{Exists: broker.No} }
	there := func(q broker.Queue) func(*inspect.Facts) {
		return func(f *inspect.Facts) {
			q.Name, q.PolicyKnown = "q.dlq", true
			f.Known.Queues["q.dlq"] = &q
		}
	}
	sound := broker.Queue{Declared: broker.Declared{Type: "quorum", Durable: true,
		Args: broker.DeadLetterArguments()}}
	expiring, byPolicy := sound, sound
	expiring.Args = amqp.Table{broker.ArgType: "quorum", broker.ArgTTL: int64(60000)}
	byPolicy.Policy, byPolicy.PolicyName = amqp.Table{"message-ttl": int64(60000)}, "all"
	for name, tc := range map[string]struct {
		f       []func(*inspect.Facts)
		want    []string
		refused string
	}{
		"everything is missing": {changes(gone), []string{`declare the fanout exchange "q.dlx"`,
			`declare the quorum queue "q.dlq"`, `bind the queue "q.dlq" to the exchange "q.dlx"`}, ""},
		"a policy for both queues": {changes(gone, matching(amqp.Table{"dead-letter-exchange": "q.dlx"}),
			without(broker.ArgDeadLetterExchange)), []string{
			`declare the fanout exchange "q.dlx"`,
			`set the policy "strikes.q.dlq" for the queue "q.dlq" alone: delivery-limit=2147483647, ` +
				`without dead-letter-exchange`,
			`declare the quorum queue "q.dlq"`, `bind the queue "q.dlq" to the exchange "q.dlx"`,
		}, ""},
		"a policy that lets dead letters expire": {changes(gone, matching(amqp.Table{"message-ttl": int64(60000)}),
			there(byPolicy)), []string{
			`declare the fanout exchange "q.dlx"`,
			`set the policy "strikes.q.dlq" for the queue "q.dlq" alone: delivery-limit=2147483647, without message-ttl`,
			`bind the queue "q.dlq" to the exchange "q.dlx"`,
		}, ""},
		"the same by an operator": {changes(gone, func(f *inspect.Facts) {
			f.Policies.Operator = []broker.Policy{{Name: "ttl", Pattern: "^q", ApplyTo: "all",
				Definition: broker.Table{"message-ttl": int64(60000)}}}
		}), nil, "keeps messages for 60000 ms"},
		"the dead-letter queue is there": {changes(gone, there(sound)), []string{`declare the fanout exchange "q.dlx"`,
			`bind the queue "q.dlq" to the exchange "q.dlx"`}, ""},
		"with arguments that lose messages": {changes(gone, there(expiring)), nil, "keeps messages for 60000 ms"},
		"an exchange of unknown type":       {changes(gone, with(broker.ArgDeadLetterExchange, "dead")), nil, ""},
		"the usual exchange is there as direct": {changes(without(broker.ArgDeadLetterExchange), exchange("q.dlx",
			"direct")), nil,
			`the exchange "q.dlx" is direct: no binding takes every dead letter`},
		"the usual exchange leads back": {changes(without(broker.ArgDeadLetterExchange), exchange("q.dlx",
			"fanout", toQueue("q"))), nil, "leads back to the queue"},
		"the usual exchange leads back through another": {changes(without(broker.ArgDeadLetterExchange),
			exchange("q.dlx", "fanout", broker.Binding{Destination: "mid", DestinationType: "exchange"}), exchange("mid",
				"fanout", toQueue("q"))),
			nil, "leads back to the queue"},
		"the usual exchange leads back through a queue": {changes(without(broker.ArgDeadLetterExchange), exchange("q.dlx",
			"fanout", toQueue("q.wait")),
			keeps("q.wait", broker.ArgTTL, int64(1000), broker.ArgDeadLetterExchange,
				"", broker.ArgDeadLetterKey, "q")),
			nil, "leads back to the queue"},
	} {
		f := examined(t, tc.f...)
		need := inspect.Need{Queue: f.Name, MaxRetries: 3}
		plan := patient{f}.plan(inspect.Judge(inspect.All, f, need), need)
		var refused []string
		for _, fix := range plan.Fixes {
			refused = append(refused, fix.Refused...)
		}
		var steps []string
		for _, s := range plan.Steps() {
			steps = append(steps, s.String())
		}
		if diff := cmp.Diff(tc.want, steps); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if got := strings.Join(refused, "; "); !strings.Contains(got, tc.refused) || (got == "") != (tc.refused == "") {
			t.Errorf("%s: refused because %q, want %q", name, got, tc.refused)
		}
	}
}

// A delay on the dead-letter route keeps its policy. One that the queue's own policy matches by mistake does not.
func TestPlanLeavesDelays(t *testing.T) {
	const few = `set the policy "strikes.q.wait" for the queue "q.wait" alone: delivery-limit=2147483647`
	delay := broker.Table{"message-ttl": int64(3600000), "dead-letter-exchange": "", "dead-letter-routing-key": "dead"}
	for name, tc := range map[string]struct {
		definition broker.Table
		pattern    string
		want       []string
	}{
		"no policy": {nil, "^none$", []string{few}},
		"a delay":   {delay, `^q\.wait$`, nil},
		"by the policy of the queue itself": {delay, "^q", []string{
			few + ", without dead-letter-exchange, without dead-letter-routing-key, without message-ttl"}},
		"an expiry alone": {broker.Table{"message-ttl": int64(1)}, `^q\.wait$`, []string{few + ", without message-ttl"}},
	} {
		f := examined(t)
		f.Policies.User = []broker.Policy{{Name: "wait", Pattern: tc.pattern, ApplyTo: "queues", Definition: tc.definition}}
		f.Policies.Apply(&f.Queue)
		wait := broker.Queue{VHost: f.VHost, Name: "q.wait", Version: f.Version, PolicyKnown: true,
			Declared: broker.Declared{Type: broker.Quorum, Durable: true, Args: amqp.Table{broker.ArgType: "quorum"}}}
		f.Policies.Apply(&wait)
		fix := Fix{Finding: inspect.Finding{Code: inspect.CodeDeadLetterLimit, About: "q.wait"}}
		f.Vitals = &inspect.Vitals{Targets: []broker.Queue{wait}}
		patient{f}.fix(&fix)
		var steps []string
		for _, s := range fix.Steps {
			steps = append(steps, s.String())
		}
		if diff := cmp.Diff(tc.want, steps); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
