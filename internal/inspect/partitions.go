package inspect

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/internal/panics"
)

// inspectedTogether is how many partitions are inspected at the same time.
const inspectedTogether = 8

// InspectPartitions inspects the n partitions of need.Queue with inspect, and the exchanges that lead to them. The same
// finding of several partitions is returned once. Only Management shows the bindings.
func InspectPartitions(ctx context.Context, conn *amqp.Connection, need Need, n int,
	inspect func(context.Context, *amqp.Connection, Need) ([]Finding, error)) ([]Finding, error) {
	if err := broker.CheckName(need.Queue); err != nil {
		return nil, fmt.Errorf("queue: %w", err)
	}
	of := make([][]Finding, n)
	var all panics.Group
	all.SetLimit(inspectedTogether)
	for i := range n {
		all.Go(func() (err error) {
			one := need.For(broker.Partition(need.Queue, i))
			of[i], err = inspect(ctx, conn, one)
			if errors.Is(err, broker.ErrNotFound) {
				of[i], err = []Finding{MissingPartition(one.Queue)}, nil
			}
			return err
		})
	}
	if err := all.Wait(); err != nil {
		return nil, err
	}
	plain, _, err := broker.FindQueue(ctx, conn, need.Queue)
	if err := broker.UnlessRefused(err); err != nil {
		return nil, err
	}
	have, err := broker.PartitionsOf(ctx, conn, need.Queue)
	if err := broker.UnlessRefused(err); err != nil {
		return nil, err
	}
	if have > 0 && have != n {
		return []Finding{Say("partition-count", Vars{"n": n, "have": have})}, nil
	}
	found := Merged(need.Queue, of)
	if plain == broker.Yes && isMissing(found) {
		return []Finding{Say("not-partitioned", Vars{"queue": quoted(need.Queue)})}, nil
	}
	var exist []string
	for i, partition := range broker.Partitions(need.Queue, n) {
		if !isMissing(of[i]) {
			exist = append(exist, partition)
		}
	}
	more, err := lookAtExchanges(ctx, conn, need, n, exist)
	return append(found, more...), err
}

// Partitioned returns the names of the partitions of each partitioned queue. Their number is that in the name of the
// exchange to which the fanout leads.
func (g Graph) Partitioned() map[string][]string {
	all := map[string][]string{}
	for queue, x := range g.Exchanges {
		for _, b := range x.Bindings {
			number, is := strings.CutPrefix(b.Destination, queue+".hash")
			n, err := strconv.Atoi(number)
			if !is || err != nil || x.Kind != amqp.ExchangeFanout || n < 1 || n > broker.MostPartitions {
				continue
			}
			all[queue] = broker.Partitions(queue, n)
			break
		}
	}
	return all
}

// Merged names the partition in each finding. It returns a finding of several partitions once.
func Merged(queue string, of [][]Finding) (out []Finding) {
	seen := map[string]int{} // the index in out of a code
	for i, found := range of {
		for _, f := range found {
			at, again := seen[f.Code]
			if !again {
				seen[f.Code] = len(out)
				f.Seen = fmt.Sprintf("partition %q: %s", broker.Partition(queue, i), f.Seen)
				out = append(out, f)
				continue
			}
			out[at].Seen += fmt.Sprintf("; also partition %q", broker.Partition(queue, i))
			out[at].Severity = max(out[at].Severity, f.Severity)
		}
	}
	return out
}

// MissingPartition says that a partition does not exist.
func MissingPartition(name string) Finding {
	return Say("partition-missing", Vars{"partition": quoted(name)})
}

func isMissing(found []Finding) bool { return len(found) == 1 && found[0].Code == "partition-missing" }

// lookAtExchanges finds missing exchanges and wrong bindings between the exchange with the queue's name and its
// partitions, of which these exist.
func lookAtExchanges(ctx context.Context, conn *amqp.Connection, need Need, n int, exist []string) (out []Finding,
	err error) {
	chooser := broker.HashExchange(need.Queue, n)
	for _, name := range []string{need.Queue, chooser} {
		exists, err := broker.FindExchange(ctx, conn, name)
		if err := broker.UnlessRefused(err); err != nil {
			return nil, err
		}
		if exists == broker.No {
			out = append(out, Say("partition-exchange-missing", Vars{"exchange": quoted(name), "queue": need.Queue, "n": n}))
		}
	}
	api, err := need.API()
	// A silent API is a finding of each partition already.
	if err != nil || api == nil || len(out) > 0 || api.Serves(ctx, conn) != nil {
		return out, err
	}
	leads, err := api.Bindings(ctx, conn.Config.Vhost, need.Queue)
	chooses, also := api.Bindings(ctx, conn.Config.Vhost, chooser)
	if err != nil || also != nil {
		return nil, nil
	}
	return judgeBindings(need.Queue, n, exist, leads, chooses), nil
}

// judgeBindings wants one binding from the exchange with the queue's name, and one to each partition that exists. It
// reports each binding that is missing, repeated or another one.
func judgeBindings(queue string, n int, exist []string, leads, chooses []broker.Binding) (out []Finding) {
	chooser := broker.HashExchange(queue, n)
	want := func(from string, to []string, have []broker.Binding) {
		count := map[string]int{}
		for _, b := range have {
			count[b.Destination]++
		}
		for _, name := range to {
			if count[name] != 1 {
				out = append(out, Say("partition-bindings", Vars{"exchange": quoted(from), "to": quoted(name), "n": count[name],
					"want": "one"}))
			}
			delete(count, name)
		}
		for _, name := range slices.Sorted(maps.Keys(count)) {
			out = append(out, Say("partition-bindings", Vars{"exchange": quoted(from), "to": quoted(name), "n": count[name],
				"want": "none"}))
		}
	}
	want(queue, []string{chooser}, leads)
	want(chooser, exist, chooses)
	return out
}
