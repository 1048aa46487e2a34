package main

import (
	"context"
	"fmt"
	"net/url"
	"time"

	"github.com/strikesmq/strikes/cmd/strikes/internal/connect"
	"github.com/strikesmq/strikes/cmd/strikes/internal/render"
	"github.com/strikesmq/strikes/cmd/strikes/internal/term"
	"github.com/strikesmq/strikes/internal/inspect"
	"github.com/strikesmq/strikes/internal/status"
)

// codeUndecodable is a finding about a queue that the store knows of.
const codeUndecodable = "undecodable-message"

// undecodableFinding is the doctor's.
func undecodableFinding(u *status.Undecodable, now time.Time, vhost, queue, api string) finding {
	f := finding{
		Code: codeUndecodable, Severity: inspect.Warning.String(),
		Seen: render.Undecodable(u, now) + "; reported by " + term.Brief(u.Holder, 80) + ": " + term.Brief(u.Error, 300),
		Impact: "it ends each session that receives it; it blocks a classic queue, and a quorum queue until its delivery limit " +
			"dead-letters it; strikes cannot read it in the dead-letter queue either",
		Fix: "none if the message is gone; this finding ends 15 minutes after the last such session",
	}
	if !u.Blocks(now) {
		return f
	}
	f.Severity = inspect.Error.String()
	f.Fix = "stop the consumers; read the head of the queue through the management API, which can decode it, with ackmode " +
		"ack_requeue_true, to be sure; then dead-letter it; have its publisher send fewer and flatter headers"
	f.Command = rejectHead(vhost, queue, api)
	return f
}

// rejectHead is a command that dead-letters the message at the head of a queue; empty if the address of the API is not known. It
// asks for the password.
func rejectHead(vhost, queue, api string) string {
	u, err := url.Parse(api)
	if api == "" || err != nil {
		return ""
	}
	user := "USER"
	if name := u.User.Username(); name != "" && url.QueryEscape(name) == name { // fit for a shell
		user = name
	}
	return fmt.Sprintf(`curl -u %s -d '{"count":1,"ackmode":"reject_requeue_false","encoding":"auto","truncate":100}' '%s://%s/api/queues/%s/%s/get'`,
		user, u.Scheme, u.Host, url.PathEscape(vhost), url.PathEscape(queue))
}

// undecodable is a finding about a queue if the store knows of one. A store that does not answer is a finding of its own, and is
// not asked about the next queue.
func (r *rounds) undecodable(ctx context.Context, queue string) []finding {
	if r.counts == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, connect.CheckTimeout)
	defer cancel()
	reported, err := r.counts.Admin().Undecodable(ctx, r.report.vhost, queue)
	if err != nil {
		r.counts = nil
	}
	u := status.UndecodableOf(reported)
	if u == nil || err != nil {
		return nil
	}
	now, err := r.counts.Admin().Now(ctx)
	if err != nil {
		now = time.Now().UTC()
	}
	return []finding{undecodableFinding(u, now, r.report.vhost, queue, r.need.Management)}
}
