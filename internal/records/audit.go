package records

import (
	"context"
	"time"

	"github.com/strikesmq/strikes/counter"
)

// The verbs of the audit log.
const (
	VerbPause      = "pause"
	VerbResume     = "resume"
	VerbSkip       = "skip"
	VerbReset      = "reset"
	VerbSetLimit   = "set limit"
	VerbClearLimit = "clear limit"
	VerbReplay     = "replay"
	VerbDrop       = "drop"
	VerbRelease    = "release"
	VerbRepair     = "repair"
)

// The results of a change in the audit log, if it is no error.
const (
	ResultBegun = "begun" // a later entry says what came of it
	ResultDone  = "done"
)

// auditTimeout bounds the wait for the store after a change that may have been interrupted.
const auditTimeout = 2 * time.Second

// Audit adds a change to the audit log of the queue, with the error that ended it, nil if it is done. The change stands
// if the log cannot be written: Warn gets that error.
func (q *Queue) Audit(ctx context.Context, e counter.AuditEntry, err error) {
	if e.Result == "" {
		e.Result = ResultDone
	}
	if err != nil {
		e.Result = err.Error()
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), auditTimeout)
	defer cancel()
	if err := q.Store.Audit(ctx, q.VHost, q.Name, e); err != nil && q.Warn != nil {
		q.Warn(err)
	}
}

// entryOf is the entry of a change that has a note.
func entryOf(verb, subject string, n counter.Note, count int) counter.AuditEntry {
	return counter.AuditEntry{Actor: n.By, Verb: verb, Subject: subject, Reason: n.Why, Count: int64(count)}
}

// AuditLog returns the newest entries of the queue's audit log, the newest first. The error wraps ErrNone if there are
// none.
func (q *Queue) AuditLog(ctx context.Context, limit int) ([]counter.AuditEntry, error) {
	entries, err := q.Store.AuditLog(ctx, q.VHost, q.Name, "", limit)
	if err == nil && len(entries) == 0 {
		err = q.None("no change was made by hand")
	}
	return entries, err
}
