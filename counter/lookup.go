package counter

import (
	"context"
	"fmt"
)

// Lookup returns what is kept of lives that are known by name, as a dead letter tells its own; VHost and Queue of the
// messages are not looked at. Lives of which nothing is kept are missing from the map, whose keys are the messages with
// the vhost and queue that were given. It takes one round trip for each 200 messages, and unlike Get searches nothing.
func (c *Counter) Lookup(ctx context.Context, vhost, queue string, lives []Message) (map[Message]Record, error) {
	if c.refuse != nil {
		return nil, c.refuse
	}
	found := make(map[Message]Record, len(lives))
	for len(lives) > 0 {
		n := min(len(lives), page)
		if err := c.lookUp(ctx, Message{VHost: vhost, Queue: queue}, lives[:n], found); err != nil {
			return nil, fmt.Errorf("counter: lookup, queue %q: %w", queue, err)
		}
		lives = lives[n:]
	}
	return found, nil
}

func (c *Counter) lookUp(ctx context.Context, of Message, lives []Message, found map[Message]Record) error {
	members := make([]string, len(lives))
	for i, m := range lives {
		members[i] = member(m.ID, m.Life)
	}
	records, err := c.read(ctx, of.VHost, of.Queue, members)
	if err != nil {
		return err
	}
	kept := make(map[Message]Record, len(records)) // a record keeps the beginning of a long id
	for _, r := range records {
		if r.State == Foreign {
			continue
		}
		kept[Message{ID: r.ID, Life: r.Life}] = r
	}
	for _, m := range lives {
		if r, ok := kept[Message{ID: cut(m.ID, maxStoredID), Life: cut(m.Life, maxStoredID)}]; ok {
			found[Message{VHost: of.VHost, Queue: of.Queue, ID: m.ID, Life: m.Life}] = r
		}
	}
	return nil
}
