package deadletter

import (
	"fmt"
	"time"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/broker"
)

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
//	again     bool       it was delivered before, so an interrupted replay may have published it too
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
	if before := m.ours().Fence(); before <= counter.MaxFence {
		fence = max(fence, before+1)
	}
	if m.Record != nil {
		fence = max(fence, m.Record.Fence+1)
	}
	return min(fence, counter.MaxFence)
}
