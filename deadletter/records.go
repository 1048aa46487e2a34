package deadletter

import (
	"context"
	"iter"
	"time"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/broker"
)

// Records reads the counter's records of messages. A *counter.Admin is one.
type Records interface {
	// Lookup returns the records of the messages that have one.
	Lookup(ctx context.Context, vhost, queue string,
		generations []counter.Message) (map[counter.Message]counter.Record, error)

	// Generations yields the records of a queue. It is called where a dead letter does not say in which generation it
	// died.
	Generations(ctx context.Context, vhost, queue string) iter.Seq2[counter.Record, error]

	// NoteRemoved notes that Replay or Drop took dead letters off that died in this queue and whose records are
	// tombstones. It is called after they are off, ten times a second at most and at the end. If the process is killed
	// before, they are never noted. An error ends nothing: see Result.RecordsErr.
	NoteRemoved(ctx context.Context, vhost, queue string, dead []counter.Message) error
}

// joiner gives dead letters their records.
type joiner struct {
	records Records // nil: none
	vhost   string

	// generations that were named after a death, by queue and id. They are listed for the first dead letter in doubt, and
	// most queues have none.
	generations map[string]map[string][]string
}

// join looks up the generations that the dead letters name. For those in doubt it lists which generations there are.
func (j *joiner) join(ctx context.Context, messages []*Message) error {
	if j.records == nil {
		return nil
	}
	if err := j.lookUp(ctx, messages, generationsOf); err != nil {
		return err
	}
	var doubtful []*Message
	for _, m := range messages {
		if !inDoubt(m) {
			continue
		}
		if err := j.list(ctx, m.Queue); err != nil {
			return err
		}
		m.Record = nil
		doubtful = append(doubtful, m)
	}
	listed := func(m *Message) []string {
		return []string{generationBefore(m, j.generations[m.Queue][m.ID])}
	}
	if err := j.lookUp(ctx, doubtful, listed); err != nil {
		return err
	}
	for _, m := range doubtful {
		if m.Record != nil && outlived(m.Origin, *m.Record) {
			m.Record = nil
		}
	}
	own(messages)
	return nil
}

// lookUp gives each dead letter the record of the first of its generations that has one.
func (j *joiner) lookUp(ctx context.Context, messages []*Message, generationsOf func(*Message) []string) error {
	wanted := map[string][]counter.Message{} // by the queue in which they died
	for _, m := range messages {
		if m.ID == "" || m.Queue == "" {
			continue
		}
		for _, g := range generationsOf(m) {
			wanted[m.Queue] = append(wanted[m.Queue], counter.Message{ID: m.ID, Generation: g})
		}
	}
	for queue, generations := range wanted {
		records, err := j.records.Lookup(ctx, j.vhost, queue, generations)
		if err != nil {
			return err
		}
		for _, m := range messages {
			if m.Queue == queue && m.Record == nil {
				m.Record, m.diedIn = recordOf(m, j.vhost, generationsOf(m), records)
			}
		}
	}
	return nil
}

func recordOf(m *Message, vhost string, generations []string, records map[counter.Message]counter.Record) (
	r *counter.Record, generation string) {
	for _, g := range generations {
		if r, ok := records[counter.Message{VHost: vhost, Queue: m.Queue, ID: m.ID, Generation: g}]; ok {
			return &r, g
		}
	}
	return nil, ""
}

// inDoubt reports whether a dead letter may have died in a generation that it does not name. It then has no record, or
// one of a generation that no death began, with its last failed attempt at another time than the death.
func inDoubt(m *Message) bool {
	if m.ID == "" || m.Queue == "" {
		return false
	}
	if m.Record == nil {
		return true
	}
	early, late := m.Origin.Time.Add(-time.Second), m.Origin.Time.Add(2*time.Second) // x-death has whole seconds
	return m.Record.Generation == m.ours().FirstGeneration() &&
		(m.Record.LastTime.Before(early) || m.Record.LastTime.After(late))
}

// outlived reports whether a message died when the tombstone of the record did not bind any more: the message had begun
// another generation, which has no record.
func outlived(died Death, r counter.Record) bool {
	return r.State == counter.StateDeadLetter && died.Time.After(r.Binds)
}

// list lists, once, which generations of the messages of a queue have records.
func (j *joiner) list(ctx context.Context, queue string) error {
	if j.generations[queue] != nil {
		return nil
	}
	generations := map[string][]string{}
	for r, err := range j.records.Generations(ctx, j.vhost, queue) {
		if err != nil {
			return err
		}
		if _, _, ok := broker.ParseGeneration(r.Generation); ok {
			generations[r.ID] = append(generations[r.ID], r.Generation)
		}
	}
	if j.generations == nil {
		j.generations = map[string]map[string][]string{}
	}
	j.generations[queue] = generations
	return nil
}
