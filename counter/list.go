package counter

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/strikesmq/strikes/counter/rules"
	"github.com/strikesmq/strikes/internal/printable"
	"github.com/strikesmq/strikes/internal/setting"
)

// page is how many records are read in one round trip.
const page = 200

// List yields the records of a queue that are failing, running or dead-lettered, the last written first, to the second.
// That is the newest failure, unless an attempt began since. They have no TTL, and those that NoteRemoved noted are
// omitted. List reads page by page, so it neither blocks the store nor holds the whole list. A record that is written
// meanwhile moves to the front and may be missed. List yields an error once and stops.
func (a *Admin) List(ctx context.Context, vhost, queue string) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		of := Queue{vhost, queue}
		next, stop := iter.Pull2(a.records(ctx, of, setIndex, Entry{}))
		defer stop()
		live, err, more := next()
		for dead, deadErr := range a.records(ctx, of, setDead, Entry{}) {
			for ; more && (err != nil || deadErr == nil && live.at.Score >= dead.at.Score); live, err, more = next() {
				if !yield(live.Record, failed("list", queue, err)) || err != nil {
					return
				}
			}
			if !yield(dead.Record, failed("list", queue, deadErr)) || deadErr != nil {
				return
			}
		}
		for ; more && yield(live.Record, failed("list", queue, err)); live, err, more = next() {
		}
	}
}

// Live is List without the dead-lettered records.
func (a *Admin) Live(ctx context.Context, vhost, queue string) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		for r, err := range a.records(ctx, Queue{vhost, queue}, setIndex, Entry{}) {
			if !yield(r.Record, failed("list", queue, err)) {
				return
			}
		}
	}
}

// listed is a record with its place in a set.
type listed struct {
	Record
	at Entry
}

// records yields the records of a set of records after a place, in its order. It omits those that expired, and values
// that another program wrote to their keys.
func (a *Admin) records(ctx context.Context, of Queue, set string, after Entry) iter.Seq2[listed, error] {
	return func(yield func(listed, error) bool) {
		for p, err := range a.readPages(ctx, of, set, after, page/4, math.MaxInt) {
			if err != nil {
				yield(listed{}, err)
				return
			}
			for i, text := range p.texts {
				r, ok := parseRecord(of, text)
				is := ok && (set == setDead) == (r.State == StateDeadLetter)
				if is && !yield(listed{r, p.entries[i]}, nil) {
					return
				}
			}
		}
	}
}

// Dead is a tombstone with a dead letter that was not removed.
type Dead struct {
	Record        // without TTL
	After  string // as the argument of Admin.Dead it continues the list after this one
}

// Dead yields the tombstones of a queue with dead letters that were not removed, the newest first; after is empty, or
// the After of the last one seen. A tombstone that is renewed because its message cannot leave the queue moves to the
// front. Dead reads page by page, and no other records. It yields an error once and stops.
func (a *Admin) Dead(ctx context.Context, vhost, queue, after string) iter.Seq2[Dead, error] {
	return func(yield func(Dead, error) bool) {
		from, err := parsePlace(after)
		if err != nil {
			yield(Dead{}, failed("dead", queue, err))
			return
		}
		for r, err := range a.records(ctx, Queue{vhost, queue}, setDead, from) {
			if !yield(Dead{r.Record, placeOf(r.at)}, failed("dead", queue, err)) {
				return
			}
		}
	}
}

// CountDead returns how many tombstones Dead yields.
func (a *Admin) CountDead(ctx context.Context, vhost, queue string) (int, error) {
	now, _, err := a.store.Load(ctx, Queue{})
	if err != nil {
		return 0, failed("count dead", queue, err)
	}
	n, err := a.store.Count(ctx, Queue{vhost, queue}, setDead, now.UnixMilli())
	return n, failed("count dead", queue, err)
}

func placeOf(e Entry) string { return fmt.Sprintf("%d-%s", e.Score, e.Name) }

// parsePlace is the inverse of placeOf. The empty text is before all places.
func parsePlace(text string) (Entry, error) {
	if text == "" {
		return Entry{}, nil
	}
	score, name, ok := strings.Cut(text, "-")
	n, err := strconv.ParseInt(score, 10, 64)
	if !ok || err != nil {
		return Entry{}, setting.New("after", printable.Cut(text, 80), "a place in the list: empty, or the After of "+
			"a dead-lettered record")
	}
	return Entry{name, n}, nil
}

// DeadReason is why and when a message was dead-lettered. Do not print its strings on a terminal unescaped.
type DeadReason struct {
	ID     string // a record keeps the first 512 bytes
	Cause  Cause
	Reason string
	At     time.Time
}

// DeadReasons yields the reasons of the dead letters that Dead yields, the newest first, in pages of at most 1000. The
// parameter most limits how many it reads; 0 or less: all of them. It takes about a third of the time of Dead, and
// yields an error once and stops.
func (a *Admin) DeadReasons(ctx context.Context, vhost, queue string, most int) iter.Seq2[[]DeadReason, error] {
	return func(yield func([]DeadReason, error) bool) {
		most := cmp.Or(max(most, 0), math.MaxInt)
		for p, err := range a.readPages(ctx, Queue{vhost, queue}, setDead, Entry{}, min(most, longPage), most) {
			out := make([]DeadReason, 0, len(p.texts))
			for _, text := range p.texts {
				if r, ok := rules.DecodeDead(text); ok {
					out = append(out, DeadReason{ID: r.ID, Cause: r.Cause, Reason: r.Reason, At: r.LastTime})
				}
			}
			if !yield(out, failed("reasons", queue, err)) || err != nil {
				return
			}
		}
	}
}
