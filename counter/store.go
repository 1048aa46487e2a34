package counter

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Store keeps small documents and ordered sets of names for queues, and knows nothing of their meaning. Package rules
// decides on their content. A Store is safe for concurrent use. Its errors say nothing about whether a Save was done.
type Store interface {
	// Load returns the time by the store's clock, to the microsecond, and the documents with these names, in their
	// order. A document that does not exist, or has expired, has neither Data nor Version.
	Load(ctx context.Context, queue Queue, names ...string) (now time.Time, docs []Doc, err error)

	// Read returns the Data of the Record of each Entry of page. The entries follow each other on a Page of set. Load
	// takes three times as long. The Data of a record that has expired, or that it cannot read, is empty.
	Read(ctx context.Context, queue Queue, set string, page []Entry) ([]string, error)

	// Save makes a change whole, or not at all if one of its documents is not as it was loaded. It reports whether it made
	// the change, and sets the Version of the documents that it wrote. A change writes a document or member once.
	Save(ctx context.Context, queue Queue, change Change) (saved bool, err error)

	// Page returns the first n members of a set that come after a place, the highest score first, and those of one score
	// by the bytes of their names, backwards. The zero Entry comes before the first. Fewer than n end the set.
	Page(ctx context.Context, queue Queue, set string, after Entry, n int) ([]Entry, error)

	// Count returns how many members of a set have this score or a higher one. It reads an index.
	Count(ctx context.Context, queue Queue, set string, from int64) (int, error)

	// Examine returns the faults of the server and its settings, without writing. After an error nothing is known of
	// them.
	Examine(ctx context.Context) ([]Finding, error)

	Close() error
}

// Queue names a queue of a broker.
type Queue struct{ VHost, Name string }

// Doc is a document of a queue.
type Doc struct {
	Name    string
	Data    string    // any bytes; empty: Save removes the document
	Version string    // as Load returned it: another Data has another Version
	Expires time.Time // by the store's clock, in whole milliseconds; zero: never

	Any bool  // of Save: replace the document, whatever its Version is now
	Err error // of Load: why this document cannot be read. It wraps ErrForeign
}

// Change is a set of writes that Save does together or not at all.
type Change struct {
	Docs []Doc    // to be written
	Same []Doc    // must be as they were loaded, and stay
	Sets []Member // to be moved, or removed
	Add  []Sum    // to be added; several may be of one document
}

func (c Change) isEmpty() bool { return len(c.Docs)+len(c.Sets)+len(c.Add) == 0 }

// Member is a name in a set. Without a Name it moves no member, and all that are in the set are kept until Expires.
type Member struct {
	Set, Name string
	Score     int64
	Gone      bool      // it leaves the set
	Expires   time.Time // it is kept until then, or longer: a Store may keep the members of a set together
}

// Entry is a member of a set on a Page.
type Entry struct {
	Name  string
	Score int64
}

// Record returns the name of the document with the record of the message that e stands for.
func (e Entry) Record() string { return docRecord(e.Name) }

// Sum adds to a number in a document of fields. Changes that only add do not conflict.
type Sum struct {
	Doc, Field string
	By         int64
	Expires    time.Time // the document is kept until then, or longer
}

// AddTo returns the Data of a document of fields after a Sum, for a Store.
func AddTo(data string, s Sum) string {
	fields := decodeFields(data)
	fields[s.Field] = strconv.FormatInt(number(fields[s.Field])+s.By, 10)
	return encodeFields(fields)
}

// encodeFields writes a document of fields: the name and the value of each, every one after its length and a colon.
func encodeFields(fields map[string]string) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		for _, text := range []string{name, fields[name]} {
			b.WriteString(strconv.Itoa(len(text)))
			b.WriteByte(':')
			b.WriteString(text)
		}
	}
	return b.String()
}

// decodeFields reads the fields of a document, up to one that it cannot read.
func decodeFields(data string) map[string]string {
	fields, name, isValue := map[string]string{}, "", false
	for data != "" {
		length, rest, _ := strings.Cut(data, ":")
		n, err := strconv.Atoi(length)
		if err != nil || n < 0 || n > len(rest) {
			break
		}
		if isValue {
			fields[name] = rest[:n]
		}
		name, isValue, data = rest[:n], !isValue, rest[n:]
	}
	return fields
}

// isFields reports whether a document is one of fields. START, FAIL and END, and a Sum, change single fields of these.
func isFields(name string) bool {
	return name == docLimit || name == docPause || name == docTombstones || strings.HasPrefix(name, docLanesBlocked)
}

// The documents of a queue besides its records, and its sets.
const (
	docLimit       = "limit"
	docPause       = "pause"
	docDeal        = "deal"
	docTombstones  = "tombstones"
	docUndecodable = "undecodable"
	docBreaker     = "breaker"
	docWaiting     = "waiting:" // and the token of a reader
	docAudited     = "audit:last"
	docAudit       = "audit:" // and the number of a place in the log

	docLane         = "lane:"         // and the hash of the lane; its sets of places begin with the same name
	docLanesOwner   = "lanes:owner"   // the session whose steps are taken
	docLanesBlocked = "lanes:blocked" // count; with ":" and the number of a minute, how many messages were blocked in it

	setIndex     = "index"
	setDead      = "dead"
	setSkips     = "skips"
	setConsumers = "consumers"
	setAudit     = "audit"
	setLanes     = "lanes" // those that are blocked, longest blocked first
)

// docRecord is the name of a message's record.
func docRecord(member string) string { return "r:" + member }
