package acks

import "slices"

// settlement is one ack or nack: that of the last entry.
type settlement[D any] []*Entry[D]

// take takes out the deliveries with a method up to the first without. It also takes later ones that have waited long
// enough, or all later ones if they are many or keep the workers waiting.
func (b *Batcher[D]) take() {
	n := slices.IndexFunc(b.unsettled, func(e *Entry[D]) bool { return e.Method == 0 })
	if n < 0 {
		n = len(b.unsettled)
	}
	run := slices.Clone(b.unsettled[:n])
	b.unsettled, b.decided = slices.Delete(b.unsettled, 0, n), b.decided-n
	all := b.run == 1 || b.decided >= 2*b.run || b.starving()
	var singles []*Entry[D]
	if b.decided > 0 {
		b.unsettled = slices.DeleteFunc(b.unsettled, func(e *Entry[D]) bool {
			due := e.Method != 0 && (all || b.ticks >= e.tick+Patience)
			if due {
				singles = append(singles, e)
			}
			return due
		})
		b.decided -= len(singles)
	}
	if b.opened != b.highest { // a tag is missing
		b.singly(run)
	} else {
		b.inRuns(run)
	}
	b.singly(singles)
}

// inRuns makes one settlement of each run of the oldest deliveries with the same method. One between two of a run goes
// before it, on its own.
func (b *Batcher[D]) inRuns(oldest []*Entry[D]) {
	for len(oldest) > 0 {
		run, between, rest := firstRun(oldest)
		b.singly(between)
		b.due = append(b.due, run)
		oldest = rest
	}
}

func (b *Batcher[D]) singly(entries []*Entry[D]) {
	for _, e := range entries {
		b.due = append(b.due, settlement[D]{e})
	}
}

// firstRun divides entries into the run that begins with the oldest, the entries between those of the run, and the
// rest.
func firstRun[D any](oldest []*Entry[D]) (run, between, rest []*Entry[D]) {
	alike := func(i int) bool { return i < len(oldest) && oldest[i].Method == oldest[0].Method }
	n := 1
	for alike(n) {
		n++
	}
	run = oldest[:n:n] // append copies it
	for ; alike(n) || alike(n+1); n++ {
		if alike(n) {
			run = append(run, oldest[n])
		} else {
			between = append(between, oldest[n])
		}
	}
	return run, between, oldest[n:]
}
