package ledger

import "time"

// Progress follows the messages in a history. A process may die between settling a delivery and writing that down, so
// Progress ignores settlements. The queue shows whether one was lost.
type Progress struct {
	tail      *Tail
	Confirmed map[string]bool
	Begun     map[string]bool
	Done      map[string]bool // handled, or about to be dead-lettered
	Dead      map[string]bool // about to be dead-lettered
	Last      time.Time       // when the newest begin of a handler was read
}

// NewProgress begins at the beginning of the history in dir.
func NewProgress(dir string) *Progress {
	return &Progress{tail: NewTail(dir), Confirmed: map[string]bool{}, Begun: map[string]bool{}, Done: map[string]bool{},
		Dead: map[string]bool{}, Last: time.Now()}
}

// Update reads the events that were written since.
func (p *Progress) Update() error {
	events, err := p.tail.Next()
	for _, e := range events {
		switch {
		case e.Kind == Published && e.Outcome == Confirmed:
			p.Confirmed[e.ID] = true
		case e.Kind == Began:
			p.Begun[e.ID], p.Last = true, time.Now()
		case e.Kind == Decided:
			p.Dead[e.ID], p.Done[e.ID] = true, true
		case e.Kind == Dead, e.Kind == Ended && e.Outcome == OK:
			p.Done[e.ID] = true
		}
	}
	return err
}

// Open is how many confirmed messages are not done.
func (p *Progress) Open() (n int) {
	for id := range p.Confirmed {
		if !p.Done[id] {
			n++
		}
	}
	return n
}
