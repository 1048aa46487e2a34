package counter

import (
	"context"
	"fmt"
	"iter"
	"slices"
)

// Lookup returns what is kept of lives that are known by name, as a dead letter tells its own; VHost and Queue of the
// messages are not looked at. Lives of which nothing is kept are missing from the map, whose keys are the messages with
// the vhost and queue that were given. It takes one round trip for each 200 messages, and unlike Get searches nothing.
func (a *Admin) Lookup(ctx context.Context, vhost, queue string, lives []Message) (map[Message]Record, error) {
	if a.refuse != nil {
		return nil, a.refuse
	}
	found := make(map[Message]Record, len(lives))
	for len(lives) > 0 {
		n := min(len(lives), page)
		if err := a.lookUp(ctx, Message{VHost: vhost, Queue: queue}, lives[:n], found); err != nil {
			return nil, fmt.Errorf("counter: lookup, queue %q: %w", queue, err)
		}
		lives = lives[n:]
	}
	return found, nil
}

func (c *client) lookUp(ctx context.Context, of Message, lives []Message, found map[Message]Record) error {
	members := make([]string, len(lives))
	for i, m := range lives {
		members[i] = member(m.ID, m.Generation)
	}
	records, err := c.read(ctx, of.VHost, of.Queue, members)
	if err != nil {
		return err
	}
	kept := make(map[Message]Record, len(records)) // a record keeps the beginning of a long id
	for _, r := range records {
		if r.State == StateForeign {
			continue
		}
		kept[Message{ID: r.ID, Generation: r.Generation}] = r
	}
	for _, m := range lives {
		if r, ok := kept[Message{ID: cut(m.ID, maxStoredID), Generation: cut(m.Generation, maxStoredID)}]; ok {
			found[Message{VHost: of.VHost, Queue: of.Queue, ID: m.ID, Generation: m.Generation}] = r
		}
	}
	return nil
}

// Generations yields the records of a queue whose generation has a name: those of messages that were dead-lettered and published
// again, which are few. It searches the index in the store, and reads no other record. A record that is
// written meanwhile may be missed, or come twice. After an error, which it yields once, it stops.
func (a *Admin) Generations(ctx context.Context, vhost, queue string) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		if a.refuse != nil {
			yield(Record{}, a.refuse)
			return
		}
		for cursor, first := uint64(0), true; first || cursor > 0; first = false {
			records, next, err := a.generations(ctx, vhost, queue, cursor)
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

// named matches the members of generations with a name: the others end with one digit.
const named = "*:??*"

func (c *client) generations(ctx context.Context, vhost, queue string, cursor uint64) (out []Record, next uint64, err error) {
	index := c.opts.queueKey(vhost, queue) + "index"
	found, next, err := c.rdb.ZScan(ctx, index, cursor, named, scanned).Result()
	if err != nil {
		return nil, 0, c.errorAt(Message{VHost: vhost, Queue: queue}, err)
	}
	var members []string
	for i := 0; i < len(found); i += 2 { // every second value is a score
		members = append(members, found[i])
	}
	for chunk := range slices.Chunk(members, page) {
		records, err := c.read(ctx, vhost, queue, chunk)
		if err != nil {
			return nil, 0, err
		}
		out = append(out, records...)
	}
	return out, next, nil
}
