package counter

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/strikesmq/strikes/counter/rules"
	"github.com/strikesmq/strikes/internal/printable"
)

// Lookup returns the records of generations that are known by name, such as those that dead letters carry. It ignores
// the VHost and Queue of the messages. The map's keys are the messages with the given vhost and queue; a generation
// without a record is missing. Lookup takes one round trip for 200 messages, and unlike Get it searches nothing.
func (a *Admin) Lookup(ctx context.Context, vhost, queue string, messages []Message) (map[Message]Record, error) {
	if a.refuse != nil {
		return nil, a.refuse
	}
	found := make(map[Message]Record, len(messages))
	for chunk := range slices.Chunk(messages, page) {
		if err := a.lookUp(ctx, Message{VHost: vhost, Queue: queue}, chunk, found); err != nil {
			return nil, fmt.Errorf("counter: lookup, queue %q: %w", queue, err)
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
// and published again, which are few. It searches the queue's sorted sets in the store and reads no other record. A
// record that is written meanwhile may be missed, or come twice. Generations yields an error once and stops.
func (a *Admin) Generations(ctx context.Context, vhost, queue string) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		if a.refuse != nil {
			yield(Record{}, a.refuse)
			return
		}
		k := a.opts.keys(Message{VHost: vhost, Queue: queue})
		for _, set := range []string{k.index, k.dead} {
			for cursor, first := uint64(0), true; first || cursor > 0; first = false {
				records, next, err := a.named(ctx, vhost, queue, set, cursor)
				if err != nil {
					yield(Record{}, fmt.Errorf("counter: generations, queue %q: %w", queue, err))
					return
				}
				for _, r := range records {
					if !yield(r, nil) {
						return
					}
				}
				cursor = next
			}
		}
	}
}

// namedMembers matches the members of generations that are not empty: the others end with one digit.
const namedMembers = "*:??*"

// named scans a set from a cursor and returns the records whose generation is not empty, and the next cursor.
func (a *Admin) named(ctx context.Context, vhost, queue, set string, cursor uint64) (out []Record, next uint64,
	err error) {
	found, next, err := a.rdb.ZScan(ctx, set, cursor, namedMembers, scanned).Result()
	if err != nil {
		return nil, 0, a.errorAt(Message{VHost: vhost, Queue: queue}, err)
	}
	var members []string
	for i := 0; i < len(found); i += 2 { // every second value is a score
		members = append(members, found[i])
	}
	for chunk := range slices.Chunk(members, page) {
		records, err := a.read(ctx, vhost, queue, chunk)
		if err != nil {
			return nil, 0, err
		}
		out = append(out, records...)
	}
	return out, next, nil
}
