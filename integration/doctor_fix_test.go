package integration

import (
	"errors"
	"slices"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/doctor"
	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/internal/inspect"
	"github.com/strikesmq/strikes/topology"
)

// TestDoctorFixes: whatever the doctor can fix is fixed by its plan, and the fix leads to no other error. A policy that
// matches a queue often matches its dead-letter queue too.
func TestDoctorFixes(t *testing.T) {
	t.Parallel()
	b := newTopo(t)
	wide := func(definition map[string]any) func(topo, string) {
		return func(b topo, q string) {
			topoAPI(b.t, "PUT", "policies/%2F/"+q, map[string]any{"pattern": "^" + q, "apply-to": "queues",
				"definition": definition})
			b.t.Cleanup(func() { b.forgetPolicy(q) })
			b.queue(q, amqp.Table{"x-queue-type": "quorum"})
		}
	}
	sick := slices.Concat(lost(), limited(b), ended(), []patient{
		{"a policy that lets dead letters expire too", wide(map[string]any{"message-ttl": 60000}), inspect.Need{}, ""},
		{"a policy that sends dead letters on", func(b topo, q string) {
			wide(map[string]any{"dead-letter-exchange": q + ".dlx"})(b, q)
		}, inspect.Need{}, ""},
	})
	fixed := 0
	for _, p := range admit(t, b, sick) {
		if p.want != "" {
			b.settles(p)
		}
		need := p.need
		checkup := &doctor.Checkup{Conn: b.conn, Need: need}
		plans, err := checkup.Plans(t.Context(), []string{need.Queue}, unseen)
		if err != nil {
			t.Fatalf("%s: %v", p.name, err)
		}
		plan := plans[0]
		for _, own := range []string{"strikes." + need.Queue, "strikes." + need.Queue + ".dlq"} {
			t.Cleanup(func() { b.forgetPolicy(own) })
		}
		if len(plan.Steps()) == 0 {
			continue
		}
		fixed++
		left, err := plan.Do(t.Context(), b.conn, nil)
		if err != nil || len(left) > 0 {
			t.Errorf("%s: %v, left %v, after %q", p.name, err, left, plan.Steps())
		}
		again, err := checkup.Plans(t.Context(), []string{need.Queue}, unseen)
		if err != nil || len(again[0].Steps()) > 0 {
			t.Errorf("%s: %v; a second fix would %q after %q", p.name, err, again[0].Steps(), plan.Steps())
		}
		if codes, found := b.examine(need); strings.Contains(codes, "error") && !slices.ContainsFunc(plan.Fixes,
			leftToAPerson) {
			t.Errorf("%s: still %v", p.name, found)
		}
	}
	if fixed < 12 {
		t.Errorf("only %d could be fixed", fixed)
	}
}

// leftToAPerson reports whether a plan has no step for an error.
func leftToAPerson(f doctor.Fix) bool {
	return f.Finding.Severity == inspect.Error && len(f.Steps) == 0
}

func unseen(doctor.Plan) error { return nil }

// fixAll does the same as strikes doctor --fix QUEUE…, and returns the steps.
func (b topo) fixAll(queues ...string) (steps string) {
	b.t.Helper()
	up := doctor.Checkup{Conn: b.conn, Need: inspect.Need{MaxRetries: 3, Management: managementURL(b.t)}, Named: true}
	var shown []string
	_, err := up.Plans(b.t.Context(), slices.Concat(queues, []string{"nope"}), func(p doctor.Plan) error {
		shown = append(shown, p.Named)
		return nil
	})
	if shown = slices.Compact(shown); !errors.Is(err, broker.ErrNotFound) || !slices.Equal(shown, queues) {
		b.t.Errorf("%v; the plans of %q are shown before, want %q", err, shown, queues)
	}
	plans, err := up.Plans(b.t.Context(), queues, unseen)
	need(b.t, err)
	for _, p := range plans {
		deleteLater(b.t, p.Queue)
		b.t.Cleanup(func() { b.forgetPolicy("strikes." + p.Queue) })
		for _, s := range p.Steps() {
			steps += s.String() + "; "
		}
		left, err := p.Do(b.t.Context(), b.conn, nil)
		if err != nil || len(left) > 0 {
			b.t.Fatal(left, err)
		}
	}
	return steps
}

// landings is where the dead letters of a queue land.
func (b topo) landings(queue string) (names []string) {
	b.t.Helper()
	of := inspect.Need{Queue: queue, Management: managementURL(b.t)}
	queues, _, err := doctor.FindDeadLetters(b.t.Context(), b.conn, of)
	need(b.t, err)
	for _, q := range queues {
		names = append(names, q.Name)
	}
	return names
}

// TestFixOfQueuesThatShareAnExchange: each dead letter is in one queue after the fix, so that a replay of each queue
// runs no message twice.
func TestFixOfQueuesThatShareAnExchange(t *testing.T) {
	t.Parallel()
	b := newTopo(t)
	one, other := uniqueName(t, "one"), uniqueName(t, "other")
	b.exchange(one+".shared", "fanout")
	for _, q := range []string{one, other} {
		args := quorum(q)
		args["x-dead-letter-exchange"] = one + ".shared"
		b.queue(q, args)
	}
	b.fixAll(one, other)
	for _, q := range []string{one, other} {
		if got := b.landings(q); len(got) != 1 {
			t.Errorf("the dead letters of %s land in %q", q, got)
		}
	}
}

// TestFixWhereTheExchangeIsBound: an exchange QUEUE.dlx that leads to a queue already needs no second one.
func TestFixWhereTheExchangeIsBound(t *testing.T) {
	t.Parallel()
	b := newTopo(t)
	q := uniqueName(t, "bound")
	b.exchange(q+".dlx", "fanout")
	b.queue(q+".elsewhere", amqp.Table{"x-queue-type": "quorum", "x-delivery-limit": int64(2147483647)})
	b.bind(q+".elsewhere", "", q+".dlx")
	b.queue(q, amqp.Table{"x-queue-type": "quorum", "x-delivery-limit": int64(1000)})
	b.fixAll(q)
	if got := b.landings(q); len(got) != 1 {
		t.Errorf("the dead letters land in %q", got)
	}
}

// TestFixOfADeadLetterQueue: the examination says that a dead-letter queue needs no dead-letter exchange, so a fix
// gives it none.
func TestFixOfADeadLetterQueue(t *testing.T) {
	t.Parallel()
	b := newTopo(t)
	if steps := b.fixAll(declared(t, "quorum") + ".dlq"); steps != "" {
		t.Errorf("a fix does %s", steps)
	}
}

// TestFixOfAPartitionedQueue: dead letters reach the dead-letter queue of strikes declare again, where those of before
// are. In another queue they would be missing.
func TestFixOfAPartitionedQueue(t *testing.T) {
	t.Parallel()
	b := newTopo(t)
	q := uniqueName(t, "parts")
	declarePartitions(t, topology.Spec{Queue: q, Partitions: 2})
	b.must(func(ch *amqp.Channel) error { return ch.ExchangeDelete(q+".dlx", false, false) })
	steps := b.fixAll(q)
	if !strings.Contains(steps, `"`+q+`.dlq"`) || strings.Contains(steps, q+".0.dl") || strings.Count(steps, "bind") != 1 {
		t.Errorf("a fix does %s", steps)
	}
	for _, partition := range broker.Partitions(q, 2) {
		if got := b.landings(partition); !slices.Equal(got, []string{q + ".dlq"}) {
			t.Errorf("the dead letters of %s land in %q", partition, got)
		}
	}
}
