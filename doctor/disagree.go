package doctor

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/strikesmq/strikes/counter"
)

// recent is how old a step may be that says how a consumer is configured now.
const recent = 5 * time.Minute

// ConsumerLimit is a limit that consumers, not an operator, gave a message.
type ConsumerLimit struct {
	Attempts int    `json:"limit"`
	Consumer string `json:"consumer"` // a process that gave it
}

// Disagreement returns the limits that consumers gave the messages of a queue
// in the last minutes, the lowest first; none if all are the same.
func Disagreement(records iter.Seq[counter.Record], now time.Time) []ConsumerLimit {
	var seen []ConsumerLimit
	for r := range records {
		if r.State != counter.StateLive || r.Limit < 1 || now.Sub(lastStep(r)) > recent {
			continue
		}
		own := ConsumerLimit{r.Limit, r.Consumer}
		if i := slices.IndexFunc(seen, func(s ConsumerLimit) bool { return s.Attempts == own.Attempts }); i < 0 {
			seen = append(seen, own)
		} else if own.Consumer < seen[i].Consumer {
			seen[i] = own
		}
	}
	if len(seen) < 2 {
		return nil
	}
	slices.SortFunc(seen, func(a, b ConsumerLimit) int { return a.Attempts - b.Attempts })
	return seen
}

// MaxRetries is the limit as consumers are configured with it.
func (l ConsumerLimit) MaxRetries() int { return l.Attempts - 1 }

// LimitsText lists limits and the processes that gave them. It is not escaped.
func LimitsText(limits []ConsumerLimit) string {
	var text []string
	for _, l := range limits {
		text = append(text, fmt.Sprintf("%d attempts (%s)", l.Attempts, l.Consumer))
	}
	return strings.Join(text, ", ")
}

// lastStep is when a consumer took a step with the message, as far as the
// record tells.
func lastStep(r counter.Record) time.Time {
	if r.OpenSince.After(r.LastTime) {
		return r.OpenSince
	}
	return r.LastTime
}
