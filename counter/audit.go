package counter

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/strikesmq/strikes/counter/rules"
	"github.com/strikesmq/strikes/internal/printable"
	"github.com/strikesmq/strikes/internal/setting"
)

// The store keeps so many entries of a queue's audit log, and the log for so long after its last entry.
const (
	auditKept = 1000
	auditTTL  = 90 * 24 * time.Hour
)

// AuditEntry is one change that an operator made to a queue. Its strings come from people: do not print them on a
// terminal unescaped. Audit cuts them to 512 bytes, Subject and Reason to MaxReason bytes.
type AuditEntry struct {
	// of the store; orders the entries of a queue; ignored where an entry is given
	ID      string    `json:"id"`
	Time    time.Time `json:"time"`              // by the store's clock; ignored where an entry is given
	Actor   string    `json:"actor,omitempty"`   // who did it; may be empty
	Verb    string    `json:"verb"`              // what was done, such as pause, skip or replay; must not be empty
	Subject string    `json:"subject,omitempty"` // the message id or the filter of messages; empty for the whole queue
	Reason  string    `json:"reason,omitempty"`  // why; may be empty
	// what came of it, such as done or an error; begun if that is not known yet
	Result string `json:"result"`
	Count  int64  `json:"count,omitempty"` // messages changed
}

func (e AuditEntry) kept() AuditEntry {
	e.Actor, e.Verb, e.Result = printable.Cut(e.Actor, rules.MaxStoredID), printable.Cut(e.Verb, rules.MaxStoredID),
		printable.Cut(e.Result, rules.MaxStoredID)
	e.Subject, e.Reason = printable.Cut(e.Subject, MaxReason), printable.Cut(e.Reason, MaxReason)
	return e
}

func (e AuditEntry) validate(queue string) error {
	if e.Verb == "" {
		return fmt.Errorf("counter: audit, queue %q: %w", queue, setting.New("Verb", "", "the name of the change"))
	}
	return nil
}

// Audit adds an entry to the audit log of a queue. The log keeps the last 1,000 entries, for 90 days after the last
// one. After an error the entry may or may not be added.
func (a *Admin) Audit(ctx context.Context, vhost, queue string, e AuditEntry) error {
	if err := e.validate(queue); err != nil {
		return err
	}
	if a.refuse != nil {
		return a.refuse
	}
	e = e.kept()
	key := a.auditKey(vhost, queue)
	_, err := a.rdb.TxPipelined(ctx, func(tx redis.Pipeliner) error {
		tx.XAdd(ctx, &redis.XAddArgs{Stream: key, MaxLen: auditKept, Values: []any{
			"actor", e.Actor, "verb", e.Verb, "subject", e.Subject, "reason", e.Reason, "result", e.Result, "count", e.Count,
		}})
		tx.PExpire(ctx, key, auditTTL)
		return nil
	})
	if err != nil {
		return fmt.Errorf("counter: audit, queue %q: %w", queue, a.auditError(vhost, queue, err))
	}
	return nil
}

// AuditLog returns up to limit entries of the audit log of a queue, newest first: those older than the entry with the
// ID before, or the last ones if before is empty.
func (a *Admin) AuditLog(ctx context.Context, vhost, queue, before string, limit int) ([]AuditEntry, error) {
	if err := checkPage(queue, before, limit); err != nil {
		return nil, err
	}
	if a.refuse != nil {
		return nil, a.refuse
	}
	from, more := "+", 0
	if before != "" { // an exclusive range needs Redis 6.2
		from, more = before, 1
	}
	entries, err := a.rdb.XRevRangeN(ctx, a.auditKey(vhost, queue), from, "-", int64(limit+more)).Result()
	if err != nil {
		return nil, fmt.Errorf("counter: audit log, queue %q: %w", queue, a.auditError(vhost, queue, err))
	}
	var out []AuditEntry
	for _, e := range entries {
		if e.ID != before && len(out) < limit {
			out = append(out, parseAuditEntry(e))
		}
	}
	return out, nil
}

func checkPage(queue, before string, limit int) error {
	var err error
	if limit < 1 || limit > auditKept {
		err = setting.New("limit", limit, fmt.Sprintf("1 to %d", auditKept))
	}
	if _, ok := parseEntryID(before); before != "" && !ok {
		err = setting.New("before", before, "the ID of an entry")
	}
	if err != nil {
		return fmt.Errorf("counter: audit log, queue %q: %w", queue, err)
	}
	return nil
}

func parseAuditEntry(m redis.XMessage) AuditEntry {
	text := func(field string) string { s, _ := m.Values[field].(string); return s }
	id, _ := parseEntryID(m.ID)
	return AuditEntry{
		ID: m.ID, Time: time.UnixMilli(id[0]).UTC(), Actor: text("actor"), Verb: text("verb"), Subject: text("subject"),
		Reason: text("reason"), Result: text("result"), Count: number(text("count")),
	}
}

// parseEntryID reads an entry's ID: its time in ms, and a number among those of that time.
func parseEntryID(id string) (parts [2]int64, ok bool) {
	ms, n, cut := strings.Cut(id, "-")
	var err, errN error
	parts[0], err = strconv.ParseInt(ms, 10, 64)
	parts[1], errN = strconv.ParseInt(n, 10, 64)
	return parts, cut && err == nil && errN == nil && parts[0] >= 0 && parts[1] >= 0
}

func entryIDBefore(a, b string) bool {
	x, _ := parseEntryID(a)
	y, _ := parseEntryID(b)
	return slices.Compare(x[:], y[:]) < 0
}

func (a *Admin) auditError(vhost, queue string, err error) error {
	if isForeign(err) {
		return fmt.Errorf("%w: %q is no stream; inspect it with redis-cli TYPE, and remove it with DEL", ErrForeign,
			a.auditKey(vhost, queue))
	}
	return a.storeError(err)
}

func (a *Admin) auditKey(vhost, queue string) string { return a.opts.queueKey(vhost, queue) + "audit" }
