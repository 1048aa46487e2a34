package counter

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"

	"github.com/strikesmq/strikes/counter/rules"
	"github.com/strikesmq/strikes/internal/printable"
)

// Lookup returns the records of generations that are known by name, such as those that dead letters carry. It ignores
// the VHost and Queue of the messages. The map's keys are the messages with the given vhost and queue; a generation
// without a record is missing. Lookup takes one round trip for 200 messages, and unlike Get it searches nothing.
func (a *Admin) Lookup(ctx context.Context, vhost, queue string, messages []Message) (map[Message]Record, error) {
	found := make(map[Message]Record, len(messages))
	for chunk := range slices.Chunk(messages, page) {
		if err := a.lookUp(ctx, Message{VHost: vhost, Queue: queue}, chunk, found); err != nil {
			return nil, failed("lookup", queue, err)
		}
	}
	return found, nil
}

func (a *Admin) lookUp(ctx context.Context, of Message, messages []Message, found map[Message]Record) error {
	members := make([]string, len(messages))
	for i, m := range messages {
		members[i] = member(m.ID, m.Generation)
	}
	records, err := a.read(ctx, of.VHost, of.Queue, members)
	if err != nil {
		return err
	}
	kept := make(map[Message]Record, len(records)) // a record keeps the beginning of a long id
	for _, r := range records {
		if r.State != StateForeign {
			kept[Message{ID: r.ID, Generation: r.Generation}] = r
		}
	}
	for _, m := range messages {
		if r, ok := kept[Message{ID: printable.Cut(m.ID, rules.MaxStoredID), Generation: printable.Cut(m.Generation,
			rules.MaxStoredID)}]; ok {
			found[Message{VHost: of.VHost, Queue: of.Queue, ID: m.ID, Generation: m.Generation}] = r
		}
	}
	return nil
}

// Generations yields the records of a queue whose generation is not empty: those of messages that were dead-lettered
// and published again, which are few. It reads the names in the queue's sets, and no other record. A
// record that is written meanwhile may be missed, or come twice. Generations yields an error once and stops.
func (a *Admin) Generations(ctx context.Context, vhost, queue string) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		for _, set := range []string{setIndex, setDead} {
			err := a.pages(ctx, Queue{vhost, queue}, set, scanned, func(found []Entry) error {
				records, err := a.named(ctx, vhost, queue, found)
				for _, r := range records {
					if !yield(r, nil) {
						return errEnough
					}
				}
				return err
			})
			if errors.Is(err, errEnough) {
				return
			}
			if err != nil {
				yield(Record{}, failed("generations", queue, err))
				return
			}
		}
	}
}

// named returns those records of entries whose generation is not empty.
func (a *Admin) named(ctx context.Context, vhost, queue string, found []Entry) (out []Record, err error) {
	var members []string
	for _, e := range found {
		if !strings.HasSuffix(e.Name, ":0") {
			members = append(members, e.Name)
		}
	}
	for chunk := range slices.Chunk(members, page) {
		records, err := a.read(ctx, vhost, queue, chunk)
		if err != nil {
			return nil, err
		}
		out = append(out, records...)
	}
	return out, nil
}
