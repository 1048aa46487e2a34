package main

import (
	"context"
	"fmt"
	"net/url"
	"time"

	"github.com/strikesmq/strikes/cmd/strikes/internal/connect"
	"github.com/strikesmq/strikes/cmd/strikes/internal/term"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/inspect"
)

// codeUndecodable is a finding about a queue that the store knows of.
const codeUndecodable = "undecodable-message"

// stillThere is how old the last session that such a message ended may be: consumers try again every 2 s.
const stillThere = time.Minute

// undecodable is what consumers know of a message that they cannot decode.
type undecodable struct {
	Sessions int64     `json:"sessions"` // that it ended
	Since    time.Time `json:"since"`
	Last     time.Time `json:"last"`
	After    string    `json:"after,omitempty"` // id of the message delivered last before it
	Holder   string    `json:"holder,omitempty"`
	Error    string    `json:"error,omitempty"`
}

// undecodableIn returns what the store knows of a queue, nil if nothing.
func undecodableIn(ctx context.Context, store *counter.Counter, vhost, queue string) (*undecodable, error) {
	u, err := store.Admin().Undecodable(ctx, vhost, queue)
	if u == nil || err != nil {
		return nil, err
	}
	return &undecodable{Sessions: u.Sessions, Since: u.Since, Last: u.At, After: u.After, Holder: u.Holder, Error: u.Error}, nil
}

func (u *undecodable) seen(now time.Time) string {
	text := fmt.Sprintf("a message that consumers cannot decode ended %s since %s, the last %s ago",
		term.Plural(int(u.Sessions), "session"), u.Since.Format("15:04:05Z"), term.Rough(now.Sub(u.Last)))
	if u.After != "" {
		text += ", after message " + term.Shown(u.After)
	}
	return text
}

// text is a line of status.
func (u *undecodable) text(now time.Time) []term.Row {
	if u == nil {
		return nil
	}
	kind := term.Alarm
	if now.Sub(u.Last) > stillThere {
		kind = term.Plain
	}
	return []term.Row{{Text: "undecoded  " + u.seen(now) + "; strikes doctor says what to do", Kind: kind}}
}

// finding is that of the doctor.
func (u *undecodable) finding(now time.Time, vhost, queue, api string) finding {
	f := finding{
		Code: codeUndecodable, Severity: inspect.Warning.String(),
		Seen: u.seen(now) + "; reported by " + term.Brief(u.Holder, 80) + ": " + term.Brief(u.Error, 300),
		Impact: "it ends each session that receives it; it blocks a classic queue, and a quorum queue until its delivery limit " +
			"dead-letters it; strikes cannot read it in the dead-letter queue either",
		Fix: "none if the message is gone; this finding ends 15 minutes after the last such session",
	}
	if now.Sub(u.Last) > stillThere {
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
	u, err := undecodableIn(ctx, r.counts, r.report.vhost, queue)
	if err != nil {
		r.counts = nil
	}
	if u == nil || err != nil {
		return nil
	}
	now, err := r.counts.Admin().Now(ctx)
	if err != nil {
		now = time.Now().UTC()
	}
	return []finding{u.finding(now, r.report.vhost, queue, r.need.Management)}
}
