package counter

import (
	"context"
	"iter"
	"slices"
	"strings"
)

// Lookup returns the records of generations that are known by name, such as those that dead letters carry. It ignores
// the VHost and Queue of the messages. The map's keys are the messages with the given vhost and queue; a generation
// without a record is missing. Lookup takes one round trip for 200 messages, and unlike Get it searches nothing.
func (a *Admin) Lookup(ctx context.Context, vhost, queue string, messages []Message) (map[Message]Record, error) {
	found := make(map[Message]Record, len(messages))
	for some := range slices.Chunk(messages, page) {
		members := make([]string, len(some))
		for i, m := range some {
			members[i] = member(m.ID, m.Generation)
		}
		records, err := a.read(ctx, Queue{vhost, queue}, members)
		if err != nil {
			return nil, failed("lookup", queue, err)
		}
		for i, r := range records {
			if r != nil {
				found[Message{VHost: vhost, Queue: queue, ID: some[i].ID, Generation: some[i].Generation}] = *r
			}
		}
	}
	return found, nil
}

// Generations yields the records of a queue whose generation is not empty: those of messages that were dead-lettered
// and published again, which are few. It reads the names in the queue's sets, and no other record. A
// record that is written meanwhile may be missed, or come twice. Generations yields an error once and stops.
func (a *Admin) Generations(ctx context.Context, vhost, queue string) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		for _, set := range []string{setIndex, setDead} {
			for found, err := range a.pages(ctx, Queue{vhost, queue}, set, Entry{}, scanned) {
				members := slices.DeleteFunc(namesOf("", found), func(name string) bool { return strings.HasSuffix(name, ":0") })
				var records []*Record
				if err == nil {
					records, err = a.read(ctx, Queue{vhost, queue}, members)
				}
				if err != nil {
					yield(Record{}, failed("generations", queue, err))
					return
				}
				for _, r := range records {
					if r != nil && !yield(*r, nil) {
						return
					}
				}
			}
		}
	}
}
