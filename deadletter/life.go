package deadletter

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/counter"
)

// GenerationHeader begins a new life of a message, with a full budget of retries, when
// it is published again under its old id. It is the header of that name in
// package consumer.
const GenerationHeader = "x-strikes-generation"

// FenceHeader of a replayed message is an int64 above every fence that the message
// had before. It is the header of that name in package consumer.
const FenceHeader = "x-strikes-fence"

// LineageHeader of a replayed message is a table that tells where it comes from:
//
//	count     int64      how often it was replayed
//	from      string     the dead-letter queue
//	queue     string     where it had died
//	exchange  string     to which it had been published before that
//	key       string     with which it had been published; the first, if there were several
//	reason    string     why it died, from the counter's record or as the broker calls it
//	died      timestamp  when
//	again     bool       it had been handed out before, so a replay that was cut off may have published it too
//	user      string     the user-id it had, which only that user may publish
const LineageHeader = "x-strikes-replay"

// originBefore is where a message died before its last replay, for one that came to
// be a dead letter without dying again: it was replayed to an exchange that leads
// here. Like x-death, it can be sent by anybody.
func originBefore(headers amqp.Table) Death {
	lineage, _ := headers[LineageHeader].(amqp.Table)
	var d Death
	d.Queue, _ = lineage["queue"].(string)
	d.Exchange, _ = lineage["exchange"].(string)
	d.Key, _ = lineage["key"].(string)
	d.Reason, _ = lineage["reason"].(string)
	d.Time, _ = lineage["died"].(time.Time)
	return d
}

// maxReason is how much of a reason a replayed message carries, in bytes.
const maxReason = 200

// livesOf returns the names that package consumer may have given to the life in
// which the message died, likeliest first. They have the header, and the x-death
// entry before the death: none, or one of the same time and a lower count, if the
// broker goes on counting in it. RabbitMQ 4.x begins a new entry if a client
// published the message again with its headers (measured on 4.3.6): see lifeBefore.
func livesOf(headers amqp.Table, died Death) []string {
	if died.Count > 1 {
		return []string{named(died.Count-1, died.Time.Unix(), headers), replayedAs(headers)}
	}
	return []string{replayedAs(headers)}
}

// lifeBefore returns the last of the lives that began before a death, among those
// with the header of the message. A life that is named by a death began with it.
func lifeBefore(headers amqp.Table, died Death, lives []string) string {
	last, found := replayedAs(headers), false
	var since, count int64
	for _, life := range lives {
		n, at, ok := begun(life)
		if !ok || named(n, at, headers) != life || at > died.Time.Unix() || at == died.Time.Unix() && n >= died.Count {
			continue
		}
		if !found || at > since || at == since && n > count {
			last, found, since, count = life, true, at, n
		}
	}
	return last
}

// replayedAs returns package consumer's name of a life that began with a replay,
// or else with the first delivery.
func replayedAs(headers amqp.Table) string {
	if v, ok := headers[GenerationHeader].(string); ok && v != "" {
		return "header:" + v
	}
	return ""
}

// named is how package consumer calls the life after a death.
func named(count, at int64, headers amqp.Table) string {
	return strings.TrimSuffix(fmt.Sprintf("%d@%d %s", count, at, replayedAs(headers)), " ")
}

// begun reads such a name.
func begun(life string) (count, at int64, ok bool) {
	death, _, _ := strings.Cut(life, " ")
	n, t, _ := strings.Cut(death, "@")
	count, errCount := strconv.ParseInt(n, 10, 64)
	at, errTime := strconv.ParseInt(t, 10, 64)
	return count, at, errCount == nil && errTime == nil
}

// nextLife is the same however often the same dead letter is replayed, so that
// copies are told by it, and differs from every earlier one of the id.
func nextLife(replays int64, died Death, now time.Time) string {
	if died.Time.IsZero() {
		return fmt.Sprintf("%d-%d", replays, now.UnixNano())
	}
	return fmt.Sprintf("%d-%d-%d", replays, died.Time.Unix(), died.Count)
}

// nextFence returns a fence greater than all known ones of the lives before, by
// the record and the header of the last replay. Unknown ones are lower too, unless
// the store's clock was ahead of this one.
func nextFence(l *Message, now time.Time) int64 {
	fence := now.UnixMicro()
	if before, ok := l.Publishing.Headers[FenceHeader].(int64); ok && before <= counter.MaxFloor {
		fence = max(fence, before+1)
	}
	if l.Record != nil {
		fence = max(fence, l.Record.Fence+1)
	}
	return min(fence, counter.MaxFloor)
}

// replaysOf is how often the message was replayed already.
func replaysOf(headers amqp.Table) int64 {
	lineage, _ := headers[LineageHeader].(amqp.Table)
	return min(max(integer(lineage["count"]), 0), 1<<31) // anybody can send it
}
