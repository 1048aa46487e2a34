package render

import (
	"fmt"
	"strings"
	"time"

	"github.com/strikesmq/strikes/cmd/strikes/internal/term"
	"github.com/strikesmq/strikes/internal/printable"
	"github.com/strikesmq/strikes/internal/records"
)

// Pause says that a queue is, or would be, paused or resumed.
func Pause(p records.Pause) string {
	queue, note := term.Shown(p.Queue), strings.TrimSpace(noteSuffix(p.Note))
	switch {
	case !p.Paused && p.Done:
		return queue + ": resumed; it was paused " + note
	case !p.Paused:
		return queue + ": would be resumed; it is paused " + note
	case p.Before:
		return queue + ": is paused already, " + note + stopped(p)
	case p.Done:
		return queue + ": paused" + stopped(p)
	}
	return queue + ": would be paused"
}

// stopped says how many consumers have stopped.
func stopped(p records.Pause) string {
	if !p.Done {
		return ""
	}
	n := 0
	for _, c := range p.Consumers {
		if c.Stopped {
			n++
		}
	}
	if len(p.Consumers) == 0 {
		return "; no process consumes it"
	}
	return fmt.Sprintf("; %d of %s stopped", n, printable.Plural(len(p.Consumers), "process"))
}

// missed is how long after its last read a process is dead or cut off.
const missed = 3 * time.Second

// StillRunning names a consumer that has not stopped.
func StillRunning(c records.Consumer) string {
	if c.Ago > missed {
		return fmt.Sprintf("not stopped: %s; it has not asked the store for %s: it is dead, or does not reach the store",
			term.Shown(c.Consumer), term.Rough(c.Ago))
	}
	return "not stopped: " + term.Shown(c.Consumer) + "; a handler runs"
}
