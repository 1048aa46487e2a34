package consumer

import (
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/queueinfo"
)

// GenerationHeader begins a new generation of a message, with the full limit of attempts. A replay of a dead letter under its old
// id sets it to a value that the id never had before.
const GenerationHeader = queueinfo.GenerationHeader

// FenceHeader is the header for the fence of a replayed message's first delivery, an int64. `strikes dead replay` makes it
// greater than every fence that the message had before. See Attempt.Fence.
const FenceHeader = "x-strikes-fence"

// carriedFence returns the fence that a message carries: that of the last replay, or the end of the second in which it died
// last, in microseconds since 1970, if it died since. Zero if it has neither in a valid form.
func carriedFence(headers amqp.Table, queue string) int64 {
	fence := queueinfo.Integer(headers[FenceHeader])
	if fence < 0 || fence > counter.MaxFloor { // any publisher can send it
		fence = 0
	}
	if d, ok := queueinfo.NewestDeath(headers, queue); ok {
		if end := d.Time.Add(time.Second).UnixMicro(); end <= counter.MaxFloor {
			fence = max(fence, end)
		}
	}
	return fence
}
