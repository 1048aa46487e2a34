package ops

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/counter/rules"
	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/internal/inspect"
)

var atNoon = counter.QueueState{Time: noon}

// TestSilentProcesses: the list counts the processes that have stopped asking the store, and the JSON of one queue
// marks them.
func TestSilentProcesses(t *testing.T) {
	state := atNoon
	state.Consumers = []counter.ConsumerState{{Consumer: "a", Seen: earlierBy(time.Second)},
		{Consumer: "b", Seen: earlierBy(19 * time.Second)}}
	s := Status{Queue: "orders"}
	if s.ofStore(counter.Summary{QueueState: state}); s.Silent != 1 {
		t.Errorf("%d silent processes", s.Silent)
	}
	text, err := json.Marshal(Status{Processes: seen(state.Consumers, noon)})
	if err != nil || strings.Count(string(text), `"silent":true`) != 1 ||
		!strings.Contains(string(text), `{"consumer":"b",`) {
		t.Errorf("%s, %v; want b alone as silent", text, err)
	}
}

// TestWorstFirst: a queue that needs a person more comes first.
func TestWorstFirst(t *testing.T) {
	failing := func(name string, ago time.Duration) Status {
		s := Status{Queue: name}
		s.ofStore(counter.Summary{QueueState: atNoon, Retrying: 1, Head: &counter.Record{Failures: 1,
			FirstTime: earlierBy(ago), Due: noon}})
		s.lead()
		return s
	}
	dead := func(name string, missing int64) Status {
		return Status{Queue: name, Dead: DeadLetters{Count: 3, Still: 3, Missing: missing}}
	}
	waiting := func(name string, ready, consumers int) Status {
		return Status{Queue: name, Ready: &ready, Consumers: &consumers}
	}
	held := func(name string, ago time.Duration) Status {
		s := Status{Queue: name}
		state := atNoon
		state.Consumers = []counter.ConsumerState{{Seen: noon, Waiting: counter.Waiting{Messages: 1, For: ago}}}
		s.ofStore(counter.Summary{QueueState: state})
		return s
	}
	want := []struct {
		s       Status
		trouble Trouble
	}{
		{Status{Queue: "broken", Findings: []inspect.Finding{inspect.Say(inspect.CodeNoDeadLetterExchange, nil)}},
			TroubleRoute},
		{failing("hours", time.Hour), TroubleBlocked},
		{failing("minutes", 2*time.Minute), TroubleBlocked},
		{held("held", 2*time.Minute), TroubleBlocked},
		{Status{Queue: "undecodable", Undecodable: "its headers are too deep"}, TroubleBlocked},
		{Status{Queue: "without a majority", Findings: []inspect.Finding{inspect.Say(inspect.CodeNodeDown, nil)}},
			TroubleBlocked},
		{dead("lost more", 2), TroubleUnaccounted},
		{dead("lost", 1), TroubleUnaccounted},
		{Status{Queue: "limit", Findings: []inspect.Finding{inspect.Say(inspect.CodeLimitLow, nil)}}, TroubleUnsafe},
		{waiting("full", 9, 0), TroubleStopped},
		{waiting("filling", 1, 0), TroubleStopped},
		{Status{Queue: "held", BlockedLanes: 1, Retrying: 1}, TroubleLanes},
		{failing("seconds", 5*time.Second), TroubleRetrying},
		{held("not counted", 5*time.Second), TroubleRetrying},
		{dead("dead", 0), TroubleDead},
		{Status{Queue: "gone.dlq", DeadLettersOf: "gone", Ready: new(1), Consumers: new(0)}, TroubleDead},
		{waiting("busy", 9, 1), TroubleNone},
		{waiting("idle", 0, 0), TroubleNone},
	}
	o := Overview{Time: noon}
	for _, w := range slices.Backward(want) {
		o.Queues = append(o.Queues, w.s)
	}
	o.judge(sight{})
	for i, w := range want {
		if got := o.Queues[i]; got.Queue != w.s.Queue || got.Trouble != w.trouble {
			t.Errorf("at %d: %q with trouble %q, want %q with %q", i, got.Queue, got.Trouble, w.s.Queue, w.trouble)
		}
	}
}

// TestAllWaiting: the messages that processes hold are counted together, with the reason of the longest wait.
func TestAllWaiting(t *testing.T) {
	state := atNoon
	for i, w := range []counter.Waiting{{Messages: 2, For: time.Minute, Why: "503"}, {Messages: 3, For: time.Hour,
		Why: "out of reach"}, {}} {
		state.Consumers = append(state.Consumers, counter.ConsumerState{Consumer: fmt.Sprint(i), Seen: noon, Waiting: w})
	}
	var s Status
	s.ofStore(counter.Summary{QueueState: state, Retrying: 1})
	want := WaitingMessages{Messages: 5, Since: earlierBy(time.Hour), Why: "out of reach"}
	if diff := cmp.Diff(want, s.AllWaiting()); diff != "" || s.Failing() != 5 {
		t.Errorf("%d fail: %s", s.Failing(), diff)
	}
}

// TestForgottenDoesNotBlock: a message that no consumer takes says nothing about the queue's head.
func TestForgottenDoesNotBlock(t *testing.T) {
	var s Status
	s.ofStore(counter.Summary{QueueState: atNoon, Retrying: 1, Forgotten: 1, Head: &counter.Record{Failures: 1,
		FirstTime: earlierBy(time.Hour), Due: earlierBy(time.Hour)}})
	s.lead()
	if s.Blocked != 0 || s.Head.State != Forgotten || s.trouble(noon) != TroubleNone {
		t.Errorf("%+v, trouble %q", s, s.trouble(noon))
	}
}

// TestAccount: dead letters are missing if the dead-letter queue, at rest, has not as many as were sent to it.
func TestAccount(t *testing.T) {
	dead := func(count, removed, expired int64) (s counter.Summary) {
		s.Tombstones = counter.Tombstones{Count: count, Removed: removed, Expired: expired}
		return s
	}
	late := dead(3, 0, 0)
	late.Recent = 2
	for name, tc := range map[string]struct {
		at               broker.Load
		a, b             counter.Summary
		missing, unclear int64 // of each
		together         int64 // missing
	}{
		"all there":      {broker.Load{Ready: 3}, dead(2, 0, 0), dead(1, 0, 0), 0, 0, 0},
		"replayed":       {broker.Load{Ready: 2}, dead(2, 1, 0), dead(1, 0, 0), 0, 0, 0},
		"taken":          {broker.Load{Ready: 1, Taken: 2}, dead(2, 0, 0), dead(1, 0, 0), 0, 0, 0},
		"lost":           {broker.Load{Ready: 1}, dead(3, 0, 0), dead(3, 0, 0), 3, 0, 5},
		"expired":        {broker.Load{Ready: 1}, dead(3, 0, 2), dead(3, 0, 2), 1, 0, 1},
		"on the way":     {broker.Load{Ready: 1}, late, counter.Summary{}, 0, 0, 0},
		"being consumed": {broker.Load{Ready: 1, Unacked: 1}, dead(3, 0, 0), dead(3, 0, 0), 0, 3, 0},
	} {
		o := Overview{Time: noon, Queues: []Status{{Queue: "a"}, {Queue: "b"}}}
		seen := sight{
			listed: map[string]broker.Listed{"dlq": {Load: tc.at}, "a": {}, "b": {}},
			loads:  map[string]broker.Load{"a": {}, "b": {}},
			routes: map[string]DeadLetterQueue{"a": {Name: "dlq"}, "b": {Name: "dlq"}},
		}
		for i, kept := range []counter.Summary{tc.a, tc.b} {
			o.Queues[i].ofBroker(seen, o.Queues[i].Queue, nil)
			o.Queues[i].ofStore(kept)
		}
		o.judge(seen)
		if o.Missing != tc.together {
			t.Errorf("%s: %d missing together, want %d", name, o.Missing, tc.together)
		}
		for _, s := range o.Queues {
			unclear := tc.unclear
			if name == "on the way" && s.Queue == "a" {
				unclear = 2
			}
			if s.Dead.Missing != tc.missing || s.Dead.Unclear != unclear || s.Sharing != 1 {
				t.Errorf("%s: queue %s: %d missing, %d unclear, shared with %d; want %d and %d", name, s.Queue, s.Dead.Missing,
					s.Dead.Unclear, s.Sharing, tc.missing, unclear)
			}
		}
	}
}

// TestUnrecordedInTheOverview: dead letters that the store does not know, as after it lost its data, are trouble too.
func TestUnrecordedInTheOverview(t *testing.T) {
	o := Overview{Time: noon, Queues: []Status{{Queue: "quiet"}, {Queue: "q"}}}
	o.Queues[1].Dead.Queue = "q.dlq"
	o.judge(sight{listed: map[string]broker.Listed{"q.dlq": {Load: broker.Load{Ready: 3}}}})
	if s := o.Queues[0]; s.Queue != "q" || s.Dead.Unrecorded != 3 || s.Trouble != TroubleDead {
		t.Errorf("first %+v", s)
	}
}

// TestDeadLetterQueues: routes are followed through exchanges and the default exchange, and a queue without one has an
// error.
func TestDeadLetterQueues(t *testing.T) {
	queue := func(name string, args amqp.Table) broker.Listed {
		return broker.Listed{Queue: broker.Queue{
			Name: name, PolicyKnown: true, Policy: amqp.Table{}, Declared: broker.Declared{Type: broker.Classic,
				Durable: true, Args: args},
		}}
	}
	exchanges := map[string]inspect.Exchange{
		"fan": {Exists: broker.Yes, Kind: "fanout", Bound: true,
			Bindings: []broker.Binding{{Source: "fan", Destination: "dead", DestinationType: "queue"}}},
		"two": {Exists: broker.Yes, Kind: "fanout", Bound: true, Bindings: []broker.Binding{
			{Source: "two", Destination: "dead", DestinationType: "queue"}, {Source: "two", Destination: "direct.dlq",
				DestinationType: "queue"},
		}},
	}
	exchanges["none"] = inspect.Exchange{Exists: broker.Yes, Kind: "direct", Bound: true}
	exchanges["on"] = inspect.Exchange{Exists: broker.Yes, Kind: "fanout", Bound: true,
		Bindings: []broker.Binding{{Source: "on", Destination: "none", DestinationType: "exchange"}}}
	fresh := queue("fresh", nil) // the API does not show its policy yet
	fresh.PolicyKnown = false
	g := inspect.NewGraph(exchanges, []broker.Listed{
		queue("fanned", amqp.Table{"x-dead-letter-exchange": "fan"}),
		queue("direct", amqp.Table{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "direct.dlq"}),
		queue("both", amqp.Table{"x-dead-letter-exchange": "two"}),
		queue("broken", amqp.Table{"x-dead-letter-exchange": "gone"}),
		queue("lost", amqp.Table{"x-dead-letter-exchange": "gone"}),
		queue("unbound", amqp.Table{"x-dead-letter-exchange": "none"}),
		queue("nowhere", amqp.Table{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "no queue"}),
		queue("astray", amqp.Table{"x-dead-letter-exchange": "on"}),
		queue("none", nil), fresh, queue("dead", nil), queue("direct.dlq", nil), queue("broken.dlq", nil),
	})
	listing := g.List()
	at, found := deadLetterQueues(g, listing), survey(g, listing, "RabbitMQ")
	for name, code := range map[string]string{
		"fanned": "", "direct": "", "both": "", "dead": "", "fresh": "", "none": inspect.CodeNoDeadLetterExchange,
		"broken": inspect.CodeExchangeMissing, "lost": inspect.CodeExchangeMissing,
		"unbound": inspect.CodeUnbound, "nowhere": inspect.CodeQueueMissing, "astray": inspect.CodeUnbound,
	} {
		var codes []string
		for _, f := range found[name] {
			codes = append(codes, f.Code)
		}
		if got := strings.Join(codes, " "); got != code {
			t.Errorf("%s: found %q, want %q", name, got, code)
		}
	}
	for name, want := range map[string]string{"fanned": "dead", "direct": "direct.dlq", "both": "", "broken": "broken.dlq",
		"lost": "", "dead": ""} {
		if at[name].Name != want {
			t.Errorf("%s: %q, want %q", name, at[name].Name, want)
		}
	}
}

// TestDeletedQueue: the dead-letter queue of a deleted queue is listed as that. A queue that is named twice is
// collected once.
func TestDeletedQueue(t *testing.T) {
	c := Collector{listing: inspect.Listing{
		Queues: []string{"orders"}, Routes: map[string]inspect.Route{"orders": {}, "orders.dlq": {}, "gone.dlq": {}},
		DeadLetters: map[string][]string{"gone.dlq": {"gone"}, "orders.dlq": {"gone", "orders"}},
	}}
	if got := c.wanted(); !slices.Equal(got, []string{"gone.dlq", "orders"}) {
		t.Errorf("listed: %q", got)
	}
	if got := c.deleted("gone.dlq"); got != "gone" {
		t.Errorf("gone.dlq takes the dead letters of %q", got)
	}
	c.Names = []string{"b", "a", "b"}
	if got := c.wanted(); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("named: %q", got)
	}
}

// TestDelayQueues: the delay queues are found in a list of queues, the shortest delay first.
func TestDelayQueues(t *testing.T) {
	listed := map[string]broker.Listed{}
	for name, ready := range map[string]int{"strikes.delay.lost": 2, "strikes.delay.1m": 3, "orders": 4,
		"strikes.delay.of.mine": 5} {
		listed[name] = broker.Listed{Queue: broker.Queue{Name: name}, Load: broker.Load{Ready: ready}}
	}
	if diff := cmp.Diff([]DelayQueue{{"strikes.delay.1m", 3}, {"strikes.delay.lost", 2}}, delayOf(listed)); diff != "" {
		t.Error(diff)
	}
	if delayOf(listed)[0].Lost() || !delayOf(listed)[1].Lost() {
		t.Error("the wrong queue holds lost messages")
	}
}

// TestMovedMessage: the record says that a waiting message was moved.
func TestMovedMessage(t *testing.T) {
	for moved, top := range map[bool]int64{false: 0, true: 2} {
		r := counter.Record{Failures: 1, LastTime: noon, Due: noon.Add(time.Hour), Wait: time.Hour,
			Move: rules.Move{Top: top}}
		if m := blocking(r, nil, &Status{Time: noon}); m.State != Waiting || m.Moved != moved {
			t.Errorf("with %d moves: %+v", top, m)
		}
	}
}

// deafStore does not answer.
type deafStore struct{ counter.Store }

func (deafStore) Close() error { return nil }

func (deafStore) Load(ctx context.Context, _ counter.Queue, _ ...string) (time.Time, []counter.Doc, error) {
	<-ctx.Done()
	return time.Time{}, nil, ctx.Err()
}

func (deafStore) Examine(ctx context.Context) ([]counter.Finding, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// TestAllEnds: All takes 7 s at most, although neither broker nor store answers.
func TestAllEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		counts := counter.Over(deafStore{}, nil)
		defer counts.Close()
		c := &Collector{VHost: "/", Store: counts.Admin(), Names: []string{"orders"}}
		c.Dial = func(ctx context.Context) (*amqp.Connection, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		began := time.Now()
		o, err := c.All(t.Context())
		if took := time.Since(began); took > 7*time.Second || err != nil || o.Broker == nil || o.Store == nil {
			t.Errorf("after %v: %v, %v, %v", took, o.Broker, o.Store, err)
		}
	})
}
