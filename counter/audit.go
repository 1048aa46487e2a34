package counter

import (
	"context"
	"fmt"
	"time"

	"github.com/strikesmq/strikes/counter/rules"
	"github.com/strikesmq/strikes/internal/printable"
	"github.com/strikesmq/strikes/internal/setting"
)

// The store keeps at most auditKept entries of a queue's audit log, each for auditTTL.
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
	Verb    string    `json:"verb"`              // the change, such as pause, skip or replay; must not be empty
	Subject string    `json:"subject,omitempty"` // the message id or the filter of messages; empty for the whole queue
	Reason  string    `json:"reason,omitempty"`  // why; may be empty
	// done, an error, or the like; begun while the end is not known
	Result string `json:"result"`
	Count  int64  `json:"count,omitempty"` // messages changed
}

// fields are those of the document that keeps the entry.
func (e AuditEntry) fields() map[string]string {
	short := func(text string) string { return printable.Cut(text, rules.MaxStoredID) }
	return map[string]string{"id": e.ID, "at": decimal(e.Time.UnixMilli()), "actor": short(e.Actor), "verb": short(e.Verb),
		"subject": printable.Cut(e.Subject, MaxReason), "reason": printable.Cut(e.Reason, MaxReason),
		"result": short(e.Result), "count": decimal(e.Count)}
}

func parseAuditEntry(f map[string]string) AuditEntry {
	return AuditEntry{ID: f["id"], Time: millis(f["at"]), Actor: f["actor"], Verb: f["verb"], Subject: f["subject"],
		Reason: f["reason"], Result: f["result"], Count: number(f["count"])}
}

// Audit adds an entry to the audit log of a queue. The log keeps the last 1,000 entries, each for 90 days.
// After an error the entry may or may not be added.
func (a *Admin) Audit(ctx context.Context, vhost, queue string, e AuditEntry) error {
	if e.Verb == "" {
		return failed("audit", queue, setting.New("Verb", "", "the name of the change"))
	}
	// Entry n takes the place of entry n - 1,000.
	err := a.insist(ctx, Queue{vhost, queue}, []string{docAudited}, func(now time.Time, docs []Doc) (Change, error) {
		last := docs[0]
		if last.Err != nil {
			return Change{}, last.Err
		}
		n, expires := number(last.Data)+1, now.Add(auditTTL)
		last.Data, last.Expires, e.ID, e.Time = decimal(n), expires, decimal(n), now
		at := decimal(n % auditKept)
		return Change{
			Docs: []Doc{last, {Name: docAudit + at, Data: encodeFields(e.fields()), Any: true, Expires: expires}},
			Sets: []Member{{Set: setAudit, Name: at, Score: n, Expires: expires}},
		}, nil
	})
	return failed("audit", queue, err)
}

// AuditLog returns up to limit entries of the audit log of a queue, newest first: those older than the entry with the
// ID before, or the last ones if before is empty.
func (a *Admin) AuditLog(ctx context.Context, vhost, queue, before string, limit int) ([]AuditEntry, error) {
	n := number(before) // 0: from the last entry on
	switch {
	case limit < 1 || limit > auditKept:
		return nil, failed("audit log", queue, setting.New("limit", limit, fmt.Sprintf("1 to %d", auditKept)))
	case before != "" && n < 1:
		return nil, failed("audit log", queue, setting.New("before", before, "the ID of an entry"))
	}
	of := Queue{vhost, queue}
	found, err := a.store.Page(ctx, of, setAudit, Entry{Score: n}, limit)
	var docs []Doc
	if err == nil && len(found) > 0 {
		_, docs, err = a.store.Load(ctx, of, namesOf(docAudit, found)...)
	}
	if err != nil {
		return nil, failed("audit log", queue, err)
	}
	var out []AuditEntry
	for i, d := range docs {
		// Otherwise a newer entry took its place meanwhile, or it expired.
		if e := parseAuditEntry(decodeFields(d.Data)); e.ID == decimal(found[i].Score) {
			out = append(out, e)
		}
	}
	return out, nil
}
