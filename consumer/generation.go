package consumer

import (
	"time"

	"github.com/strikesmq/strikes/counter/rules"
	"github.com/strikesmq/strikes/internal/broker"
)

// GenerationHeader begins a new generation of a message, with the full limit of attempts. A replay of a dead letter
// under its old id sets it to a value that the id never had before. It counts only with the header x-strikes-for:
// docs/protocol.md has the value of that.
const GenerationHeader = broker.GenerationHeader

// FenceHeader is the header for the fence of a replayed message's first delivery, an int64. `strikes dead replay` makes
// it greater than every fence that the message had before. See Attempt.Fence.
const FenceHeader = broker.FenceHeader

// carriedFence returns the fence that a message carries: that of the last replay, or the end of the second in which it
// died last, in microseconds since 1970, if it died since. Zero if it has neither in a valid form.
func carriedFence(h broker.Headers) int64 {
	fence := h.Fence()
	if fence < 0 || fence > rules.MaxFence { // any publisher can send it
		fence = 0
	}
	if d, ok := h.NewestDeath(); ok {
		if end := d.Time.Add(time.Second).UnixMicro(); end <= rules.MaxFence {
			fence = max(fence, end)
		}
	}
	return fence
}
