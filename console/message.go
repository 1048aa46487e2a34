package console

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"unicode/utf8"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/deadletter"
	"github.com/strikesmq/strikes/internal/printable"
	"github.com/strikesmq/strikes/ops"
)

type messageView struct {
	Queue, ID   string
	Generations []ops.Record // the newest first; the newest attempt of each comes first
	Stored      *stored      // nil: not asked for
	Unread      string       // why it was asked for and is not there
	Dead        bool         // a generation is dead-lettered, so there may be a dead letter to read
	Live        bool         // a generation may be changed
}

// stored is a message as the dead-letter queue has it.
type stored struct {
	*deadletter.Message
	Properties, Headers, Lineage []property
	Formatted, Text, JSON, Hex   string
	Cut                          bool // not all of the body is shown
	Shown                        int  // bytes of it
}

type property struct{ Name, Value string }

const (
	// bodyShown is how much of a body is read, and hexShown how much is shown in hex.
	bodyShown = 64 << 10
	hexShown  = 4 << 10
	// searched is how many dead letters are read to find one.
	searched = 500
	// mostRead ends a read of the dead-letter queue, in bytes of bodies.
	mostRead = 64 << 20
)

func (c *Console) messagePage(r *http.Request) (page, error) {
	queue := queueOf(r)
	id := r.URL.Query().Get("id")
	v := messageView{Queue: queue, ID: id}
	p := page{Screen: "message", Queue: queue, Title: shown(id)}
	q := c.records(queue)
	all, err := q.Message(r.Context(), id)
	if err != nil && !errors.Is(err, ops.ErrNone) {
		return p, err
	}
	judge, err := q.Judge(r.Context())
	if err != nil {
		return p, err
	}
	for _, rec := range all {
		g := judge(rec)
		slices.Reverse(g.History)
		v.Generations = append(v.Generations, g)
		v.Dead = v.Dead || rec.State == counter.StateDeadLetter && rec.Removed.IsZero()
		v.Live = v.Live || !rec.IsOver()
	}
	p.View, p.Title = v, headlineOfMessage(v)
	return p, nil
}

func headlineOfMessage(v messageView) string {
	if len(v.Generations) == 0 {
		return shown(v.ID) + ": nothing is counted of it"
	}
	g := v.Generations[0]
	failed := plural(g.Failures+g.Crashes, "failed attempt")
	if g.State == ops.DeadLettered && !g.Removed.IsZero() {
		return fmt.Sprintf("%s: was dead-lettered after %s, since replayed or dropped", shown(v.ID), failed)
	}
	return fmt.Sprintf("%s: %s after %s", shown(v.ID), g.State, failed)
}

// readMessage reads a message from the dead-letter queue. It is a POST because reading may cost a delivery.
func (c *Console) readMessage(w http.ResponseWriter, r *http.Request) error {
	p, err := c.messagePage(r)
	if err != nil {
		return err
	}
	v, _ := p.View.(messageView)
	if v.Stored, err = c.readStored(r, v); err != nil {
		v.Unread = err.Error()
	}
	p.View = v
	c.opts.Logger.Info("console: message read", "queue", v.Queue, "id", v.ID, "actor", visitorOf(r).Actor, "err", err)
	c.render(w, r, http.StatusOK, p)
	return nil
}

func (c *Console) readStored(r *http.Request, v messageView) (*stored, error) {
	q, at, err := c.broker.DeadLetters(r.Context(), v.Queue, deadletter.Queue{Preview: bodyShown,
		MostRead: searched, MostBytes: mostRead})
	if err != nil {
		return nil, err
	}
	for m, err := range q.Browse(r.Context(), deadletter.Filter{IDs: []string{v.ID}, Source: v.Queue}) {
		if err != nil {
			return nil, err
		}
		return c.stored(m), nil
	}
	return nil, fmt.Errorf("it is not among the first %d messages of %s, or not in the first %d MiB of them", searched,
		shown(at), mostRead>>20)
}

func (c *Console) stored(m *deadletter.Message) *stored {
	p := m.Publishing
	out := &stored{Message: m, Cut: m.Size > len(p.Body), Shown: len(p.Body),
		Text: string(bytes.ToValidUTF8(p.Body, []byte("\ufffd")))}
	for _, have := range []property{
		{"content type", p.ContentType}, {"content encoding", p.ContentEncoding}, {"correlation id", p.CorrelationId},
		{"reply to", p.ReplyTo},
		{"type", p.Type}, {"app id", p.AppId}, {"user id", p.UserId}, {"expiration", p.Expiration},
	} {
		if have.Value != "" {
			out.Properties = append(out.Properties, have)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.Headers)) {
		value := p.Headers[name]
		if lineage, is := value.(amqp.Table); is && name == deadletter.LineageHeader && !m.Foreign {
			for _, part := range slices.Sorted(maps.Keys(lineage)) {
				out.Lineage = append(out.Lineage, property{part, fmt.Sprint(lineage[part])})
			}
			continue
		}
		out.Headers = append(out.Headers, property{name, fmt.Sprint(value)})
	}
	if c.opts.FormatBody != nil {
		if text, ok := c.opts.FormatBody(p); ok {
			out.Formatted = text
		}
	}
	if !out.Cut && utf8.Valid(p.Body) {
		out.JSON, _ = printable.JSON(p.Body, longestText)
	}
	out.Hex = hex.Dump(p.Body[:min(len(p.Body), hexShown)])
	return out
}
