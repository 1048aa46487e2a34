package integration

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/strikesmq/strikes/internal/inspect"
	"github.com/strikesmq/strikes/ops"
	"github.com/strikesmq/strikes/topology"
)

// TestStatusShowsErrors: a queue that loses its dead letters does not look healthy, alone or among others, also if
// nothing died yet.
func TestStatusShowsErrors(t *testing.T) {
	t.Parallel()
	b := newTopo(t)
	bare, whole := b.name(), b.name()
	b.queue(bare, nil)
	b.queue(whole, classic(whole))
	b.way(whole, "fanout", "")
	store := dialStore(t, patientURL(t))
	all := ops.Collector{VHost: "/", Store: store.Admin(), Dial: dialer(t),
		API: inspect.Need{Management: managementURL(t)}}
	defer all.Close()
	codes := func(found []inspect.Finding) (out []string) {
		for _, f := range found {
			out = append(out, f.Code)
		}
		return out
	}
	want := []string{inspect.CodeNoDeadLetterExchange}
	eventually(t, "an overview with the error of one queue alone", func() bool {
		o, err := all.All(t.Context())
		need(t, err)
		if failed := o.Failed(); failed != nil { // the servers of a busy machine answer late
			t.Log(failed)
			return false
		}
		seen := map[string]ops.Status{}
		for _, s := range o.Queues {
			seen[s.Queue] = s
		}
		if len(seen[whole].Findings) > 0 || seen[whole].Trouble == ops.TroubleRoute {
			t.Fatalf("%+v", seen[whole])
		}
		return slices.Equal(codes(seen[bare].Findings), want) && seen[bare].Trouble == ops.TroubleRoute
	})
	for queue, want := range map[string][]string{bare: want, whole: nil} {
		s, err := all.Collect(t.Context(), ops.Question{Queue: queue})
		if err != nil || !slices.Equal(codes(s.Findings), want) {
			t.Errorf("%s: %v, %v; want %v", queue, codes(s.Findings), err, want)
		}
	}
}

// TestStatusOfSeveralDeadLetterQueues: dead letters that land in two queues are shown in both, alone and among others.
func TestStatusOfSeveralDeadLetterQueues(t *testing.T) {
	t.Parallel()
	b := newTopo(t)
	queue := b.name()
	second := b.named(queue + ".second")
	b.queue(queue, classic(queue))
	b.way(queue, "fanout", "")
	b.queue(second, nil)
	b.bind(second, "", queue+".dlx")
	b.publish(queue+".dlx", "", "one", "two")
	all := ops.Collector{VHost: "/", Store: dialStore(t, patientURL(t)).Admin(), Dial: dialer(t),
		API: inspect.Need{Management: managementURL(t)}}
	defer all.Close()
	s, err := all.Collect(t.Context(), ops.Question{Queue: queue})
	want := []ops.Landing{{Queue: queue + ".dlq", Holds: new(2)}, {Queue: second, Holds: new(2)}}
	if diff := cmp.Diff(want, s.Dead.Landings); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	if where := s.Dead.Holding(); !strings.Contains(where, second+" holds 2") {
		t.Error(where)
	}
	eventually(t, "both queues in the overview", func() bool {
		o, err := all.All(t.Context())
		need(t, err)
		i := slices.IndexFunc(o.Queues, func(s ops.Status) bool { return s.Queue == queue })
		return i >= 0 && slices.ContainsFunc(o.Queues[i].Facts(o.Time), func(f ops.Fact) bool {
			return f.Text == "dead letters land in 2 queues"
		})
	})
}

// TestStatusCountsWaitingConsumers: two processes consume a queue with a single active consumer, and one of them waits.
func TestStatusCountsWaitingConsumers(t *testing.T) {
	t.Parallel()
	queue := declaredAs(t, topology.Spec{Type: topology.Quorum, SingleActiveConsumer: true})
	for range 2 {
		subscribe(t, dialBroker(t), queue, 1, nil)
	}
	all := ops.Collector{VHost: "/", Store: dialStore(t, patientURL(t)).Admin(), Dial: dialer(t),
		API: inspect.Need{Management: managementURL(t)}}
	defer all.Close()
	eventually(t, "both consumers, once the management API has them", func() bool {
		s, err := all.Collect(t.Context(), ops.Question{Queue: queue})
		need(t, err)
		return *s.Consumers == 2
	})
}
