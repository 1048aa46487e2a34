package console

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/printable"
)

// auditTimeout bounds the writing of an entry, also when the request has ended.
const auditTimeout = 5 * time.Second

// audit writes a change to the audit log of its queue, and logs it.
func (c *Console) audit(ctx context.Context, queue string, e counter.AuditEntry) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), auditTimeout)
	defer cancel()
	err := c.store.Audit(ctx, c.opts.VHost, queue, e)
	logged := []any{"verb", e.Verb, "queue", queue, "subject", e.Subject, "actor", e.Actor, "reason", e.Reason,
		"result", e.Result}
	if err != nil {
		logged = append(logged, "audit_error", err)
	}
	c.opts.Logger.Info("console: change", logged...)
	return err
}

type auditView struct {
	Entries []counter.AuditEntry
	More    string // URL of the older ones
}

const (
	auditPage = 100
	// auditAll is how many the store keeps.
	auditAll = 1000
)

// auditPage shows the changes in a queue and their authors, the newest first.
func (c *Console) auditPage(r *http.Request) (page, error) {
	queue, before := queueOf(r), r.FormValue("before")
	entries, err := c.store.AuditLog(r.Context(), c.opts.VHost, queue, before, auditPage)
	if err != nil {
		return page{}, err
	}
	v := auditView{Entries: entries}
	if len(entries) == auditPage {
		v.More = link("audit", "queue", queue, "before", entries[len(entries)-1].ID)
	}
	p := page{Screen: "audit", Queue: queue, View: v, Title: shown(queue) + ": no change was made"}
	if before != "" {
		p.Title = shown(queue) + ": older changes"
	} else if len(entries) > 0 {
		last := entries[0]
		p.Title = fmt.Sprintf("%s: last changed %s ago, %s by %s", shown(queue),
			printable.Rough(max(time.Since(last.Time), 0)), shown(last.Verb), shown(last.Actor))
	}
	return p, nil
}

// auditFile sends the audit log as one JSON object a line, the newest first.
func (c *Console) auditFile(w http.ResponseWriter, r *http.Request) error {
	queue := queueOf(r)
	entries, err := c.store.AuditLog(r.Context(), c.opts.VHost, queue, "", auditAll)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.Header().Set("Content-Disposition", "attachment; filename*=UTF-8''"+url.PathEscape("audit-"+queue+".ndjson"))
	out := json.NewEncoder(w)
	for _, e := range entries {
		err := out.Encode(map[string]any{
			"id": e.ID, "time": e.Time, "vhost": c.opts.VHost, "queue": queue, "actor": e.Actor, "verb": e.Verb,
			"subject": e.Subject,
			"reason":  e.Reason, "result": e.Result, "count": e.Count,
		})
		if err != nil {
			return nil // the browser is gone
		}
	}
	return nil
}
