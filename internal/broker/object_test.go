package broker

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	amqp "github.com/rabbitmq/amqp091-go"
)

func TestObject(t *testing.T) {
	for _, tt := range []struct {
		in   string
		want amqp.Table
		bad  bool
	}{
		{in: `{"a":1}`, want: amqp.Table{"a": json.Number("1")}},
		{in: `{}`, want: amqp.Table{}},
		{in: `[]`, want: amqp.Table{}},
		{in: "[ \n]", want: amqp.Table{}},
		{in: `null`},
		{in: `[1]`, bad: true},
		{in: `[[]]`, bad: true},
		{in: `"undefined"`, bad: true},
		{in: `7`, bad: true},
	} {
		var got struct{ Field object[amqp.Table] }
		err := json.Unmarshal([]byte(`{"field": `+tt.in+` }`), &got)
		if diff := cmp.Diff(tt.want, got.Field.is); (err != nil) != tt.bad || !tt.bad && diff != "" {
			t.Errorf("%s: %v\n%s", tt.in, err, diff)
		}
	}
}

// replies are whole replies of the API to each request that this package makes.
var replies = map[string]string{
	"/api/queues/%2F/q": `{"name":"q","type":"quorum","arguments":{"x-delivery-limit":7},
		"effective_policy_definition":{"max-length":5},
		"message_stats":{"publish_details":{"rate":1},"deliver_get_details":{"rate":1},"ack_details":{"rate":1},"ack":3},
		"consumer_details":[{"consumer_tag":"t","ack_required":true,
		"channel_details":{"connection_name":"c"},"arguments":{"a":1}}]}`,
	"/api/queues/%2F": `{"page_count":1,"items":[{"name":"q","arguments":{"a":1},
		"effective_policy_definition":{"max-length":5},
		"message_stats":{"publish_details":{"rate":1},"deliver_get_details":{"rate":1},"ack_details":{"rate":1}}}]}`,
	"/api/queues/%2F/q/bindings":           `[{"source":"x","destination":"q","arguments":{"a":1}}]`,
	"/api/exchanges/%2F/x/bindings/source": `[{"source":"x","destination":"q","arguments":{"a":1}}]`,
	"/api/bindings/%2F":                    `[{"source":"x","destination":"q","arguments":{"a":1}}]`,
	"/api/exchanges/%2F":                   `[{"name":"x","arguments":{"a":1}}]`,
	"/api/exchanges/%2F/x":                 `{"name":"x","arguments":{"a":1}}`,
	"/api/policies/%2F":                    `[{"name":"p","definition":{"max-length":5}}]`,
	"/api/operator-policies/%2F":           `[{"name":"p","definition":{"max-length":5}}]`,
}

// TestEmptyObjects holds that each object within each reply may be [] instead.
func TestEmptyObjects(t *testing.T) {
	tried := 0
	for path, whole := range replies {
		for i := 1; i < len(whole); i++ {
			if before := strings.TrimRight(whole[:i], " "); whole[i] != '{' || !strings.HasSuffix(before, ":") {
				continue // it is no field
			}
			length := int(objectLength(t, whole[i:]))
			empty := whole[:i] + "[]" + whole[i+length:]
			answers := map[string]string{}
			for p, r := range replies {
				answers[p] = r
			}
			answers[path] = empty
			if err := askAll(t, serve(t, answers)); err != nil {
				t.Errorf("%s: %s: %v", path, empty, err)
			}
			tried++
		}
	}
	if tried < 20 {
		t.Errorf("only %d objects were tried", tried)
	}
}

// objectLength returns the length of the object with which s begins.
func objectLength(t *testing.T, s string) int64 {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader([]byte(s)))
	var object map[string]any
	need(t, decoder.Decode(&object))
	return decoder.InputOffset()
}

// askAll sends each request that this package makes.
func askAll(t *testing.T, m *API) error {
	t.Helper()
	ctx := t.Context()
	asks := map[string]func() error{
		"Queue":       func() error { _, err := m.Queue(ctx, "/", "q"); return err },
		"State":       func() error { _, err := m.State(ctx, "/", "q"); return err },
		"load":        func() error { _, err := m.load(ctx, "/", "q"); return err },
		"List":        func() error { _, err := m.List(ctx, "/"); return err },
		"Names":       func() error { _, err := m.Names(ctx, "/", "q"); return err },
		"Bindings":    func() error { _, err := m.Bindings(ctx, "/", "x"); return err },
		"BindingsTo":  func() error { _, err := m.BindingsTo(ctx, "/", "q"); return err },
		"AllBindings": func() error { _, err := m.AllBindings(ctx, "/"); return err },
		"Exchange":    func() error { _, err := m.Exchange(ctx, "/", "x"); return err },
		"Exchanges":   func() error { _, err := m.Exchanges(ctx, "/"); return err },
		"Policies":    func() error { _, err := m.Policies(ctx, "/"); return err },
	}
	for name, ask := range asks {
		if err := ask(); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// TestRepliesKeepTheirObjects holds that an object that is not empty arrives.
func TestRepliesKeepTheirObjects(t *testing.T) {
	m := serve(t, replies)
	ctx := t.Context()
	q, _ := m.Queue(ctx, "/", "q")
	state, _ := m.State(ctx, "/", "q")
	load, _ := m.load(ctx, "/", "q")
	listed, _ := m.List(ctx, "/")
	bindings, _ := m.BindingsTo(ctx, "/", "q")
	exchanges, _ := m.Exchanges(ctx, "/")
	policies, _ := m.Policies(ctx, "/")
	got := fmt.Sprintln(q.Args, q.Policy, state.Consumers[0].Connection(), load.In, load.Taken, listed[0].Args,
		listed[0].Policy, listed[0].In,
		bindings[0].Arguments, exchanges[0].Arguments, policies.User[0].Definition)
	const want = "map[x-delivery-limit:7] map[max-length:5] c 1 3 map[a:1] map[max-length:5] 1 map[a:1] map[a:1] " +
		"map[max-length:5]\n"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
