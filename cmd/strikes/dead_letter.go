package main

import (
	"encoding/base64"
	"time"
	"unicode/utf8"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/deadletter"
)

// deadRow is a dead letter as list --json prints it.
type deadRow struct {
	ID       string    `json:"id"`
	Queue    string    `json:"queue,omitempty"` // in which it died
	Kind     string    `json:"kind"`
	Reason   string    `json:"reason,omitempty"`
	Broker   string    `json:"broker_reason,omitempty"`
	Died     time.Time `json:"died,omitzero"`
	Failures int       `json:"failures"`
	Crashes  int       `json:"crashes"`
	First    time.Time `json:"first,omitzero"` // charge
	Last     time.Time `json:"last,omitzero"`  // charge
	Counted  bool      `json:"counted"`        // there is a record
	Replays  int64     `json:"replays"`
	Again    bool      `json:"again"` // handed out before
	Size     *int      `json:"size,omitempty"`
}

// sizeUnknown is for what only the records tell of.
const sizeUnknown = -1

func rowOf(l *deadletter.Letter) deadRow {
	r := deadRow{
		ID: l.ID, Queue: l.Origin.Queue, Kind: string(l.Kind()), Reason: l.Reason(), Broker: l.Origin.Reason,
		Died: l.Origin.Time.UTC(), Replays: l.Replays, Again: l.Again,
	}
	if l.Size != sizeUnknown {
		r.Size = &l.Size
	}
	if l.Record != nil {
		r.Counted, r.Failures, r.Crashes, r.First, r.Last = true, l.Record.Failures, l.Record.Crashes, l.Record.FirstTime, l.Record.LastTime
	}
	return r
}

// kept is a dead letter as a line of NDJSON that publish takes, if Dead is left out.
type kept struct {
	ID              string         `json:"id,omitempty"`
	Body            *string        `json:"body,omitempty"`
	BodyBase64      *string        `json:"body_base64,omitempty"`
	Headers         map[string]any `json:"headers,omitempty"`
	ContentType     string         `json:"content_type,omitempty"`
	ContentEncoding string         `json:"content_encoding,omitempty"`
	CorrelationID   string         `json:"correlation_id,omitempty"`
	ReplyTo         string         `json:"reply_to,omitempty"`
	Type            string         `json:"type,omitempty"`
	AppID           string         `json:"app_id,omitempty"`
	UserID          string         `json:"user_id,omitempty"`
	Priority        uint8          `json:"priority,omitempty"`
	Expiration      string         `json:"expiration,omitempty"`
	Timestamp       time.Time      `json:"timestamp,omitzero"`
	Dead            *deadRow       `json:"dead,omitempty"`
}

func keptOf(m amqp.Publishing) kept {
	k := kept{
		ID: m.MessageId, ContentType: m.ContentType, ContentEncoding: m.ContentEncoding, CorrelationID: m.CorrelationId,
		ReplyTo: m.ReplyTo, Type: m.Type, AppID: m.AppId, UserID: m.UserId, Priority: m.Priority, Expiration: m.Expiration,
		Timestamp: m.Timestamp.UTC(),
	}
	k.Headers, _ = jsonValue(m.Headers).(map[string]any)
	if body := string(m.Body); utf8.ValidString(body) {
		k.Body = &body
	} else {
		coded := base64.StdEncoding.EncodeToString(m.Body)
		k.BodyBase64 = &coded
	}
	return k
}

// jsonValue turns header values into what JSON has.
func jsonValue(v any) any {
	switch v := v.(type) {
	case amqp.Table:
		if len(v) == 0 {
			return map[string]any(nil)
		}
		out := make(map[string]any, len(v))
		for key, inner := range v {
			out[key] = jsonValue(inner)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, inner := range v {
			out[i] = jsonValue(inner)
		}
		return out
	case []byte:
		return string(v)
	case time.Time:
		return v.UTC()
	}
	return v
}
