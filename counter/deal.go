package counter

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/strikesmq/strikes/counter/rules"
	"github.com/strikesmq/strikes/internal/printable"
)

// Deal says which process consumes which partitions of a queue. Package rules describes it.
type Deal = rules.Deal

// ErrPartitions is wrapped by Deal if live processes share another number of partitions of the queue. Give all
// consumers the number that the queue was declared with.
var ErrPartitions = errors.New("other processes share another number of partitions of the queue")

// dealing names the step in errors.
const dealing = "deal of partitions"

// dealTTL is how long a deal is kept after its last change.
const dealTTL = 24 * time.Hour

// Deal returns the partitions of a queue that a process shall consume, ascending. A process sends it once a second.
// After an error the last deal that it knows stands.
func (c *Counter) Deal(ctx context.Context, vhost, queue string, r rules.DealRead) (mine []int, err error) {
	r.Consumer = printable.Cut(r.Consumer, rules.MaxStoredID)
	if err := checkOwner(queue, r.Token); err != nil {
		return nil, err
	}
	var refused error
	err = c.insist(ctx, Queue{vhost, queue}, []string{docDeal}, func(now time.Time, docs []Doc) (Change, error) {
		doc := docs[0]
		d, now := readDeal(doc.Data), now.Truncate(time.Millisecond)
		var changed, ok bool
		if mine, changed, ok = d.Deal(r, now); ok {
			refused = nil
		} else {
			refused = fmt.Errorf("%w: %d, not %d", ErrPartitions, d.Partitions, r.Partitions)
		}
		if doc.Err != nil || !changed {
			return Change{}, doc.Err
		}
		text, _ := json.Marshal(d) // it has nothing that JSON lacks
		doc.Data, doc.Expires = string(text), now.Add(dealTTL)
		return Change{Docs: []Doc{doc}}, nil
	})
	if err = cmp.Or(err, refused); err != nil {
		return nil, failed(dealing, queue, err)
	}
	return mine, nil
}

// Dealt returns which process consumes which partitions of a queue; zero if the queue has no partitions that processes
// share. Members that have not read for rules.DealLease are among them until another one reads.
func (a *Admin) Dealt(ctx context.Context, vhost, queue string) (Deal, error) {
	_, text, err := a.text(ctx, Queue{vhost, queue}, docDeal)
	return readDeal(text), failed(dealing, queue, err)
}

// readDeal reads a deal. One that cannot be read is a new one: the processes deal again.
func readDeal(text string) (d Deal) {
	if json.Unmarshal([]byte(text), &d) != nil || d.Partitions < 0 {
		return Deal{}
	}
	for _, m := range d.Members {
		for _, p := range m.Partitions {
			if p < 0 || p >= d.Partitions {
				return Deal{}
			}
		}
	}
	return d
}
