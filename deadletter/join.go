package deadletter

import (
	"context"
	"time"

	"github.com/strikesmq/strikes/counter"
)

// joiner gives letters their records.
type joiner struct {
	records Records // nil: nobody counts
	vhost   string

	// lives that were named by a death, by queue and id. They are listed for the
	// first letter that is in doubt: nearly always there is none.
	lives map[string]map[string][]string
}

// join looks up the lives that the letters themselves tell of. Where that leaves a
// doubt it looks at which lives there are.
func (j *joiner) join(ctx context.Context, letters []*Message) error {
	if j.records == nil {
		return nil
	}
	told := func(l *Message) []string { return livesOf(l.Publishing.Headers, l.Origin) }
	if err := j.lookUp(ctx, letters, told); err != nil {
		return err
	}
	var doubtful []*Message
	for _, l := range letters {
		if !inDoubt(l) {
			continue
		}
		if err := j.list(ctx, l.Origin.Queue); err != nil {
			return err
		}
		l.Record = nil
		doubtful = append(doubtful, l)
	}
	known := func(l *Message) []string {
		return []string{lifeBefore(l.Publishing.Headers, l.Origin, j.lives[l.Origin.Queue][l.ID])}
	}
	if err := j.lookUp(ctx, doubtful, known); err != nil {
		return err
	}
	for _, l := range doubtful {
		if l.Record != nil && outlived(l.Origin, *l.Record) {
			l.Record = nil
		}
	}
	own(letters)
	return nil
}

// lookUp gives each letter the record of the first of its lives that has one.
func (j *joiner) lookUp(ctx context.Context, letters []*Message, livesOf func(*Message) []string) error {
	wanted := map[string][]counter.Message{} // by the queue in which they died
	for _, l := range letters {
		if l.ID == "" || l.Origin.Queue == "" {
			continue
		}
		for _, life := range livesOf(l) {
			wanted[l.Origin.Queue] = append(wanted[l.Origin.Queue], counter.Message{ID: l.ID, Generation: life})
		}
	}
	for queue, lives := range wanted {
		records, err := j.records.Lookup(ctx, j.vhost, queue, lives)
		if err != nil {
			return err
		}
		for _, l := range letters {
			if l.Origin.Queue == queue && l.Record == nil {
				l.Record, l.diedIn = recordOf(l, j.vhost, livesOf(l), records)
			}
		}
	}
	return nil
}

func recordOf(l *Message, vhost string, lives []string, records map[counter.Message]counter.Record) (r *counter.Record, life string) {
	for _, life := range lives {
		if r, ok := records[counter.Message{VHost: vhost, Queue: l.Origin.Queue, ID: l.ID, Generation: life}]; ok {
			return &r, life
		}
	}
	return nil, ""
}

// inDoubt reports whether a letter may have died in a life that it does not name.
// It then has no record, or one of a life that no death began, with its last
// charge at another time than the death.
func inDoubt(l *Message) bool {
	if l.ID == "" || l.Origin.Queue == "" {
		return false
	}
	if l.Record == nil {
		return true
	}
	early, late := l.Origin.Time.Add(-time.Second), l.Origin.Time.Add(2*time.Second) // x-death has whole seconds
	return l.Record.Generation == replayedAs(l.Publishing.Headers) && (l.Record.LastTime.Before(early) || l.Record.LastTime.After(late))
}

// outlived reports whether a message died when the tombstone of the record did
// not bind any more: it had begun another life, of which nothing is kept.
func outlived(died Death, r counter.Record) bool {
	return r.State == counter.StateDeadLetter && died.Time.After(r.Binds)
}

// list finds out once which lives of the messages of a queue have records.
func (j *joiner) list(ctx context.Context, queue string) error {
	if j.lives[queue] != nil {
		return nil
	}
	lives := map[string][]string{}
	for r, err := range j.records.Generations(ctx, j.vhost, queue) {
		if err != nil {
			return err
		}
		if _, _, ok := begun(r.Generation); ok {
			lives[r.ID] = append(lives[r.ID], r.Generation)
		}
	}
	if j.lives == nil {
		j.lives = map[string]map[string][]string{}
	}
	j.lives[queue] = lives
	return nil
}
