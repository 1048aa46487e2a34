package broker

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

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
	// CopyHeader numbers the copies of a message that was moved to a delay queue. An int64, from 1.
	CopyHeader = "x-strikes-copy"
	// CopyGenerationHeader is the generation of a copy, if its other headers do not tell it. A string.
	CopyGenerationHeader = "x-strikes-copy-generation"
	// CopyExchangeHeader and CopyKeyHeader are the exchange and the routing key of a copy's message. Without them it was
	// published to the queue by the default exchange. Strings.
	CopyExchangeHeader, CopyKeyHeader = "x-strikes-copy-exchange", "x-strikes-copy-key"
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

// NewestDeath is the newest death in the queue by a consumer, and whether there is one. An entry without a time is not
// the broker's, and would never change.
func (h Headers) NewestDeath() (Death, bool) {
	for _, d := range Deaths(h.table) {
		if d.Queue == h.queue && d.ByConsumer() {
			return d, !d.Time.IsZero()
		}
	}
	return Death{}, false
}

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

// Route returns the exchange and the routing key with which a message was published, from those of its delivery: a copy
// has other ones.
func (h Headers) Route(exchange, key string) (publishedTo, with string) {
	if h.CopyNumber() == 0 {
		return exchange, key
	}
	published, ok := h.table[CopyExchangeHeader].(string)
	if !ok {
		return "", h.queue
	}
	with, _ = h.table[CopyKeyHeader].(string)
	return published, with
}

// OfACopy reports whether a header describes a copy.
func OfACopy(header string) bool { return strings.HasPrefix(header, CopyHeader) }

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

// RouteBeforeReplay returns the exchange and the routing key that a message had before a replay to its own queue, from
// those of its delivery. It returns these if the message was not replayed so.
func (h Headers) RouteBeforeReplay(exchange, key string) (oldExchange, oldKey string) {
	lineage := h.Lineage()
	oldKey, replayed := lineage["key"].(string)
	if !replayed || exchange != "" || key != h.queue {
		return exchange, key
	}
	oldExchange, _ = lineage["exchange"].(string)
	return oldExchange, oldKey
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
	case name == PositionHeader || OfACopy(name):
		return h.tie == tiedToQueue
	}
	return h.own()
}

// FingerprintPrefix begins a fingerprint.
const FingerprintPrefix = "fp:"

// Fingerprint names a message without an id by its content: CorrelationId, Type and body, which dead-lettering does
// not change. Messages that are equal in these, and in the id, have the same one.
func Fingerprint(id, correlation, kind string, body []byte) string {
	head, _ := json.Marshal([]string{id, correlation, kind}) // of strings: it cannot fail
	sum := sha256.New()
	sum.Write(head)
	sum.Write(body)
	return FingerprintPrefix + hex.EncodeToString(sum.Sum(nil)[:6])
}

// LaneMark distinguishes messages without an id that have the same Fingerprint, because they may be in different lanes.
// It hashes the publisher's headers and the routing key. A message and its dead letter have the same mark.
func LaneMark(table amqp.Table, key string) string {
	written := maps.Clone(table)
	if written == nil { // as a dead letter has headers
		written = amqp.Table{}
	}
	maps.DeleteFunc(written, func(name string, _ any) bool {
		return OfTheBroker(name) || strings.HasPrefix(name, ours)
	})
	text, _ := json.Marshal([]any{key, written}) // "" if a header is NaN
	sum := sha256.Sum256(text)
	return ":" + hex.EncodeToString(sum[:6])
}

// OfTheBroker reports whether a header is one that RabbitMQ writes, or by which it routed the message.
func OfTheBroker(header string) bool {
	switch header {
	case "CC", "BCC", "x-death", "x-delivery-count", "x-acquired-count":
		return true
	}
	return strings.HasPrefix(header, "x-first-death-") || strings.HasPrefix(header, "x-last-death-")
}

// Generation names the generation of a message, by its newest death in the queue and its GenerationHeader, each if
// there is one. Either may be newer: a replay removes x-death and changes the header; a tool that moves a dead letter
// back keeps the header and brings a new x-death. A change of either begins a generation, so their order does not
// matter.
//
// RabbitMQ 4.x keeps the count of a death at 1 and changes its time, 3.10 the other way round: the name has both.
func (h Headers) Generation() string {
	if d, ok := h.NewestDeath(); ok {
		return h.GenerationAfter(d.Count, d.Time)
	}
	return h.FirstGeneration()
}

// FirstGeneration names the generation that a publish or a replay began. A copy from a delay queue has the generation
// that it carries.
func (h Headers) FirstGeneration() string {
	if h.CopyNumber() > 0 {
		if v, ok := h.table[CopyGenerationHeader].(string); ok && v != "" {
			return v
		}
	}
	if h.own() {
		if v := generationIn(h.table); v != "" {
			return "header:" + v
		}
	}
	return ""
}

// GenerationAfter names the generation that began when a message with these headers came back from a death.
func (h Headers) GenerationAfter(count int64, at time.Time) string {
	death := fmt.Sprintf("%d@%d", count, at.Unix())
	if first := h.FirstGeneration(); first != "" {
		return death + " " + first
	}
	return death
}

// ParseGeneration returns the death in the name of a generation; false if the name has none.
func ParseGeneration(name string) (count int64, at time.Time, ok bool) {
	death, _, _ := strings.Cut(name, " ")
	n, t, _ := strings.Cut(death, "@")
	count, errCount := strconv.ParseInt(n, 10, 64)
	unix, errTime := strconv.ParseInt(t, 10, 64)
	return count, time.Unix(unix, 0), errCount == nil && errTime == nil
}

// Death is one entry of a message's x-death header. Any publisher can send such a header: do not trust its strings more
// than a body.
type Death struct {
	Queue    string // in which the message died
	Exchange string // to which it had been published
	Key      string // with which it had been published; the first, if there were several
	Reason   string // "rejected", "delivery_limit", "expired", "maxlen"
	Time     time.Time
	Count    int64
}

// ByConsumer reports whether a consumer caused the death, by a reject or by a delivery limit.
func (d Death) ByConsumer() bool { return d.Reason == "rejected" || d.Reason == "delivery_limit" }

// Deaths reads the x-death header, newest first. It ignores malformed entries.
func Deaths(headers amqp.Table) []Death {
	list, _ := headers["x-death"].([]any)
	var out []Death
	for _, entry := range list {
		t, _ := entry.(amqp.Table)
		d := Death{Count: Integer(t["count"])}
		d.Queue, _ = t["queue"].(string)
		d.Exchange, _ = t["exchange"].(string)
		d.Reason, _ = t["reason"].(string)
		d.Time, _ = t["time"].(time.Time)
		if keys, _ := t["routing-keys"].([]any); len(keys) > 0 {
			d.Key, _ = keys[0].(string)
		}
		if d.Queue != "" {
			out = append(out, d)
		}
	}
	return out
}

// maxInteger is the largest integer that every language reads exactly: 2^53-1.
const maxInteger = 1<<53 - 1

// HeaderText is a header's value as text, which is the same on every host; empty for nil.
func HeaderText(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case []byte:
		return string(v)
	case time.Time:
		return v.UTC().Format(time.RFC3339)
	default:
		return fmt.Sprint(v)
	}
}

// Integer is a header's whole number, whatever its type: libraries of other languages do not tell the types apart. It
// is 0 if it is none, or beyond ±(2^53-1).
func Integer(v any) int64 {
	var n int64
	switch v := reflect.ValueOf(v); {
	case v.CanInt():
		n = v.Int()
	case v.CanUint():
		n = int64(min(v.Uint(), math.MaxInt64))
	case v.CanFloat() && v.Float() == math.Trunc(v.Float()) && math.Abs(v.Float()) <= maxInteger:
		n = int64(v.Float())
	}
	if n < -maxInteger || n > maxInteger {
		return 0
	}
	return n
}
