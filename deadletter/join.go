package deadletter

import (
	"context"

	"github.com/strikesmq/strikes/counter"
)

// join gives letters their records.
func (q *Queue) join(ctx context.Context, vhost string, letters []*Letter) error {
	if q.Records == nil {
		return nil
	}
	wanted := map[string][]counter.Message{} // by the queue in which they died
	for _, l := range letters {
		if l.ID == "" || l.Origin.Queue == "" {
			continue
		}
		for _, life := range livesOf(l.Message.Headers, l.Origin) {
			wanted[l.Origin.Queue] = append(wanted[l.Origin.Queue], counter.Message{ID: l.ID, Life: life})
		}
	}
	for queue, lives := range wanted {
		records, err := q.Records.Lookup(ctx, vhost, queue, lives)
		if err != nil {
			return err
		}
		for _, l := range letters {
			if l.Origin.Queue == queue && l.Record == nil {
				l.Record = recordOf(l, vhost, records)
			}
		}
	}
	return nil
}

func recordOf(l *Letter, vhost string, records map[counter.Message]counter.Record) *counter.Record {
	for _, life := range livesOf(l.Message.Headers, l.Origin) {
		if r, ok := records[counter.Message{VHost: vhost, Queue: l.Origin.Queue, ID: l.ID, Life: life}]; ok {
			return &r
		}
	}
	return nil
}
