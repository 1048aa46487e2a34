package deadletter

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/counter/rules"
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
		// The message died when the tombstone did not bind any more: it had begun another generation, without a record.
		if r := m.Record; r != nil && r.State == counter.StateDeadLetter && m.Origin.Time.After(r.Binds) {
			m.Record = nil
		}
	}
	for _, m := range messages {
		if m.Record != nil && diedBefore(m.Origin, *m.Record) {
			m.Record, m.Shared = nil, true
		}
	}
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
			if m.Queue != queue {
				continue
			}
			for _, g := range generationsOf(m) {
				r, ok := records[counter.Message{VHost: j.vhost, Queue: queue, ID: m.ID, Generation: g}]
				if ok && m.Record == nil {
					m.Record, m.diedIn = &r, g
				}
			}
		}
	}
	return nil
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

// clockSkew is how far the clocks of store and broker may differ if several messages used one record.
const clockSkew = time.Second

// diedBefore reports whether the record of a message describes a later message with its id. The last attempt then
// failed after this message had died. x-death has whole seconds, and RabbitMQ 3.10 keeps the time of the first death
// when it counts several.
func diedBefore(died Death, r counter.Record) bool {
	// once the later message begins, the attempts at the earlier one count no more
	reused := func(t rules.Token) bool { return t.Kind == rules.KindNotCounted }
	return r.State == counter.StateDeadLetter && slices.ContainsFunc(r.Tokens, reused) && died.Count <= 1 &&
		died.Time.Add(time.Second+clockSkew).Before(r.LastTime)
}

// GenerationHeader begins a new generation of a message, with all its attempts, when the message is published again
// under its old id. It is consumer.GenerationHeader.
const GenerationHeader = broker.GenerationHeader

// FenceHeader of a replayed message is an int64 above every fence that the message had before. It is
// consumer.FenceHeader.
const FenceHeader = broker.FenceHeader

// LineageHeader of a replayed message is a table that says where the message comes from:
//
//	count     int64      how often it was replayed
//	from      string     the dead-letter queue
//	queue     string     the queue in which it died
//	exchange  string     the exchange to which it had been published before
//	key       string     the routing key of that; the first, if there were several
//	reason    string     why it died, from the counter's record or from the broker
//	died      timestamp  when
//	user      string     its user-id, which only that user may publish
//
// Like the other headers of strikes, it counts only on the message that it was written for: see Message.Foreign.
const LineageHeader = broker.LineageHeader

// generationsOf returns the generations in which a message may have died, likeliest first. Package consumer names a
// generation after the header and the x-death entry before this death: none, or one with the same time and a lower
// count if the broker counts on in it. RabbitMQ 4.x begins a new entry for a message that a client publishes with its
// headers (4.3.6): see generationBefore.
func generationsOf(m *Message) []string {
	first := m.ours().FirstGeneration()
	if died := m.Origin; died.Count > 1 {
		return []string{m.ours().GenerationAfter(died.Count-1, died.Time), first}
	}
	return []string{first}
}

// generationBefore returns the latest generation that began before a death, among those with the message's header. A
// generation that is named after a death began with it.
func generationBefore(m *Message, generations []string) string {
	headers, died := m.ours(), m.Origin
	latest, found := headers.FirstGeneration(), false
	var since time.Time
	var count int64
	for _, g := range generations {
		n, at, ok := broker.ParseGeneration(g)
		if !ok || headers.GenerationAfter(n, at) != g || at.After(died.Time) || at.Equal(died.Time) && n >= died.Count {
			continue
		}
		if !found || at.After(since) || at.Equal(since) && n > count {
			latest, found, since, count = g, true, at, n
		}
	}
	return latest
}

// nextGeneration returns the value of GenerationHeader for a replay. It is the same however often one dead letter is
// replayed, so that duplicates can be recognised, and differs from every earlier one of the id.
func nextGeneration(replays int64, died Death, now time.Time) string {
	if died.Time.IsZero() {
		return fmt.Sprintf("%d-%d", replays, now.UnixNano())
	}
	return fmt.Sprintf("%d-%d-%d", replays, died.Time.Unix(), died.Count)
}

// nextFence returns a fence above those of the record and of the last replay. Unknown fences are lower too, unless the
// store's clock was ahead of this one.
func nextFence(m *Message, now time.Time) int64 {
	fence := now.UnixMicro()
	if before := m.ours().Fence(); before <= rules.MaxFence {
		fence = max(fence, before+1)
	}
	if m.Record != nil {
		fence = max(fence, m.Record.Fence+1)
	}
	return min(fence, rules.MaxFence)
}
