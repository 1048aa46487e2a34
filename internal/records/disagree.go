package records

import (
	"iter"
	"slices"
	"time"

	"github.com/strikesmq/strikes/counter"
)

// recent is how old a step may be that says how a consumer is configured now.
const recent = 5 * time.Minute

// OwnLimit is a limit that consumers, not an operator, gave a message.
type OwnLimit struct {
	MaxRetries int    `json:"max_retries"`
	Holder     string `json:"holder"` // a process that gave it
}

// Disagreement returns the limits that consumers gave the messages of a queue
// in the last minutes, the lowest first; none if all are the same.
func Disagreement(records iter.Seq[counter.Record], now time.Time) []OwnLimit {
	var seen []OwnLimit
	for r := range records {
		if r.State != counter.StateLive || r.Limit < 1 || now.Sub(lastStep(r)) > recent {
			continue
		}
		own := OwnLimit{r.Limit - 1, r.Holder}
		if i := slices.IndexFunc(seen, func(s OwnLimit) bool { return s.MaxRetries == own.MaxRetries }); i < 0 {
			seen = append(seen, own)
		} else if own.Holder < seen[i].Holder {
			seen[i] = own
		}
	}
	if len(seen) < 2 {
		return nil
	}
	slices.SortFunc(seen, func(a, b OwnLimit) int { return a.MaxRetries - b.MaxRetries })
	return seen
}

// lastStep is when a consumer took a step with the message, as far as the
// record tells.
func lastStep(r counter.Record) time.Time {
	if r.OpenSince.After(r.LastTime) {
		return r.OpenSince
	}
	return r.LastTime
}
