package broker

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Headers that strikes writes into a message. Programs copy the headers of a message to the next one, so only Headers
// reads them.
const (
	// GenerationHeader begins a new generation of the message if its value changes. A string.
	GenerationHeader = "x-strikes-generation"
	// FenceHeader of a replayed message is above all fences that it had before. An int64.
	FenceHeader = "x-strikes-fence"
	// PositionHeader is the position of a replayed message in its lane. A string.
	PositionHeader = "x-strikes-position"
	// CopyHeader numbers the copies of a message that was moved to a bucket. An int64, from 1.
	CopyHeader = "x-strikes-copy"
	// CopyGenerationHeader is the generation of a copy, if its other headers do not tell it. A string.
	CopyGenerationHeader = "x-strikes-copy-generation"
	// LineageHeader says where a replayed message comes from. A table.
	LineageHeader = "x-strikes-replay"
	// ForHeader names the message that the others were written for: see WriteFor.
	ForHeader = "x-strikes-for"
)

// tied are the headers that count only with a ForHeader.
var tied = []string{GenerationHeader, FenceHeader, PositionHeader, CopyHeader, CopyGenerationHeader, LineageHeader}

// ours begins the name of each header that strikes, or a plugin of it, writes.
const ours = "x-strikes-"

// Headers are the headers of one message. Those of strikes count only if they were written for this message:
// otherwise a program that publishes with the headers of a message it received would give its message the position,
// generation or fence of the other. The zero value is a message without headers.
type Headers struct {
	table amqp.Table
	queue string
	tie   tie
}

// tie says for which message the headers of strikes were written.
type tie uint8

const (
	tiedToNone  tie = iota // there are none
	tiedToOther            // for another message, or nothing says for which
	tiedToID               // for this message, in whatever queue
	tiedToQueue            // for this message in this queue
)

// ReadHeaders returns the headers of a message that was received from a queue, or that died in it. The id is the
// MessageId as it was transported, not a key that a program makes of it. A message without headers of strikes costs no
// hash.
func ReadHeaders(table amqp.Table, queue, id string, body []byte) Headers {
	h := Headers{table: table, queue: queue}
	if !hasOurs(table) {
		return h
	}
	written, _ := table[ForHeader].(string)
	generation := generationIn(table)
	switch {
	case written == "":
		h.tie = tiedToOther
	case written == nameFor(queue, id, generation, body):
		h.tie = tiedToQueue
	case written == nameFor("", id, generation, body):
		h.tie = tiedToID
	default:
		h.tie = tiedToOther
	}
	return h
}

// ReadKnownHeaders returns the headers of a message of which it is known whether those of strikes are foreign:
// ReadHeaders has decided it when the whole message was there, or they were written just now.
func ReadKnownHeaders(table amqp.Table, queue string, foreign bool) Headers {
	h := Headers{table: table, queue: queue, tie: tiedToQueue}
	if foreign {
		h.tie = tiedToOther
	}
	return h
}

// WriteFor writes the ForHeader into headers that are complete but for it. An empty queue stands for whatever queue
// the message reaches: its generation, fence and lineage count there, but no position and no copy number.
func WriteFor(table amqp.Table, queue, id string, body []byte) {
	table[ForHeader] = nameFor(queue, id, generationIn(table), body)
}

// nameFor names a message by its queue, its generation header, and its id, or else its body: the hash of each with
// its length before it. The body comes last and needs none.
func nameFor(queue, id, generation string, body []byte) string {
	sum := sha256.New()
	fmt.Fprintf(sum, "%d:%s%d:%s%d:%s", len(queue), queue, len(generation), generation, len(id), id)
	if id == "" {
		sum.Write(body)
	}
	return hex.EncodeToString(sum.Sum(nil)[:16])
}

// hasOurs reports whether there is a header that counts only with a ForHeader.
func hasOurs(table amqp.Table) bool {
	return len(table) > 0 && slices.ContainsFunc(tied, func(name string) bool { _, has := table[name]; return has })
}

func generationIn(table amqp.Table) string {
	v, _ := table[GenerationHeader].(string)
	return v
}

// Foreign reports whether there are headers of strikes that count as absent, because they were written for another
// message.
func (h Headers) Foreign() bool { return h.tie == tiedToOther }

func (h Headers) own() bool { return h.tie >= tiedToID }

// NewestDeath is the newest death in the queue by a consumer, and whether there is one.
func (h Headers) NewestDeath() (Death, bool) { return NewestDeath(h.table, h.queue) }

// mostCopies is the highest copy number.
const mostCopies = 1<<31 - 1

// CopyNumber is the copy number, or 0 if the message is not a copy.
func (h Headers) CopyNumber() int64 {
	if h.tie != tiedToQueue {
		return 0
	}
	if copyNumber := Integer(h.table[CopyHeader]); copyNumber > 0 && copyNumber <= mostCopies {
		return copyNumber
	}
	return 0
}

// Position is the text of the message's position in its lane, or empty without one.
func (h Headers) Position() string {
	if h.tie != tiedToQueue {
		return ""
	}
	position, _ := h.table[PositionHeader].(string)
	return position
}

// Fence is the fence of the last replay or move, as it was written; 0: there was none.
func (h Headers) Fence() int64 {
	if !h.own() {
		return 0
	}
	return Integer(h.table[FenceHeader])
}

// Lineage says where a replayed message comes from; nil: it was not replayed.
func (h Headers) Lineage() amqp.Table {
	if !h.own() {
		return nil
	}
	lineage, _ := h.table[LineageHeader].(amqp.Table)
	return lineage
}

// Copy returns a new table of the headers, without those of strikes that count as absent: written anew, they would
// count.
func (h Headers) Copy() amqp.Table {
	out := make(amqp.Table, len(h.table)+4)
	for name, value := range h.table {
		if h.counts(name) {
			out[name] = value
		}
	}
	return out
}

func (h Headers) counts(name string) bool {
	switch {
	case !strings.HasPrefix(name, ours):
		return true
	case name == PositionHeader || name == CopyHeader || name == CopyGenerationHeader:
		return h.tie == tiedToQueue
	}
	return h.own()
}
