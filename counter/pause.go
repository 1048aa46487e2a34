package counter

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/strikesmq/strikes/counter/rules"
	"github.com/strikesmq/strikes/internal/printable"
)

// ErrPaused is wrapped by Pause if the queue is paused already, and ErrNotPaused by Resume if it is not: nothing is
// done.
var (
	ErrPaused    = errors.New("the queue is paused already")
	ErrNotPaused = errors.New("the queue is not paused")
)

// ConsumerState is a process that consumes a queue. One that has several consumers of it is listed once for each.
type ConsumerState struct {
	Consumer string // its process
	// when it read the Control of the queue, by the store's clock: once a second, unless it is dead or cut off
	Seen    time.Time
	Paused  bool    // it has read the pause of the queue, takes no deliveries and holds none
	Breaker bool    // it consumes, and has a breaker
	Waiting Waiting // messages whose attempts are not counted, as of Seen; a report is forgotten after 3 s
}

// Pause stops every consumer of a queue within two seconds, until Resume. Consumers take no more deliveries and count
// nothing; running handlers finish. A pause for a message that holds the queue becomes the operator's, and lasts until
// Resume too. The Note is kept until Resume; its Why must not be empty. A pause ends if no consumer reads it for 30
// days, or if the store loses its memory. After an error of the store the queue may or may not be paused; it is safe to
// repeat.
func (a *Admin) Pause(ctx context.Context, vhost, queue string, n Note) error {
	if err := checkNote(n); err != nil {
		return failed("pause", queue, err)
	}
	done, err := a.setPause(ctx, Queue{vhost, queue}, true, Pause{Note: n}, func(is map[string]string) bool {
		return is["paused"] != "1" || is["message"] != ""
	})
	if err == nil && !done {
		err = ErrPaused
	}
	return failed("pause", queue, err)
}

// Resume ends the pause of a queue. If a message holds the queue, its next step pauses it again. The Note may be empty.
// After an error of the store the queue may or may not be paused; it is safe to repeat.
func (a *Admin) Resume(ctx context.Context, vhost, queue string, n Note) error {
	done, err := a.setPause(ctx, Queue{vhost, queue}, false, Pause{Note: n}, func(is map[string]string) bool {
		return is["paused"] == "1"
	})
	if err == nil && !done {
		err = ErrNotPaused
	}
	return failed("resume", queue, err)
}

// HoldQueue pauses a queue for a message that holds it: Start or Fail replied ReplyHeld, or the message has no ID and
// cannot be counted. The Note says which consumer does it, and why. Resume ends the pause, and so does LimitMessage,
// Reset or Skip of the message. If the message held its queue for a crash that End or Fail reverses, these end it too.
// HoldQueue does nothing if the queue is paused, or if the message holds it no more. It is safe to repeat.
func (c *Counter) HoldQueue(ctx context.Context, h Holding, n Note) error {
	_, err := c.setPause(ctx, Queue{h.VHost, h.Queue}, true, Pause{n, &h}, func(is map[string]string) bool {
		return is["paused"] != "1"
	})
	return failed("hold", h.Queue, err)
}

// release ends a pause for a message that holds its queue no more.
func (c *client) release(ctx context.Context, m Message, n Note) error {
	_, err := c.setPause(ctx, Queue{m.VHost, m.Queue}, false, Pause{n, &Holding{Message: m}},
		func(is map[string]string) bool { return is["message"] == member(m.ID, m.Generation) })
	return err
}

// setPause pauses or resumes a queue, if may allows it. may gets the fields of the pause as the store has it. A pause
// for a message begins only while the message holds the queue, and ends only once it does not.
func (c *client) setPause(ctx context.Context, of Queue, pauses bool, p Pause, may func(map[string]string) bool) (
	done bool, err error) {
	n, names, fields := keptNote(p.Note), []string{docPause}, map[string]string{"paused": strconv.Itoa(rules.Flag(pauses))}
	if h := p.Holding; h != nil && h.ID != "" {
		m := member(h.ID, h.Generation)
		if names = append(names, docRecord(m)); pauses {
			maps.Copy(fields, map[string]string{"message": m, "cause": string(h.Cause),
				"id":         printable.Cut(h.ID, rules.MaxStoredID),
				"generation": printable.Cut(h.Generation, rules.MaxStoredID)})
		}
	}
	err = c.insist(ctx, of, names, func(now time.Time, docs []Doc) (Change, error) {
		d := docs[0]
		done = d.Err == nil && may(decodeFields(d.Data))
		for _, record := range docs[1:] {
			r, _ := rules.Decode(record.Data)
			done = done && (r.State == StateHeld) == pauses
		}
		if !done {
			return Change{}, d.Err
		}
		return Change{Docs: []Doc{paused(d, fields, n, now)}, Same: docs[1:]}, nil
	})
	return done, err
}

// paused returns the document of a pause with these fields and a note.
func paused(d Doc, fields map[string]string, n Note, now time.Time) Doc {
	now = now.Truncate(time.Millisecond)
	maps.Copy(fields, map[string]string{"by": n.By, "why": n.Why, "at": decimal(now.UnixMilli())})
	d.Data, d.Expires = encodeFields(fields), now.Add(rules.PauseTTL)
	return d
}

// Pause is the pause of a queue.
type Pause struct {
	Note
	Holding *Holding // the message for which the queue is paused; nil: none
}

// Holding is an exhausted message that holds its queue: its consumers keep the order of the whole queue, so it is not
// dead-lettered. Its ID and Generation in the store are cut like those of a Record.
type Holding struct {
	Message
	Cause Cause // why it is exhausted
}

// pauseOf reads a pause; nil: the queue is not paused.
func pauseOf(h map[string]string, of Queue) *Pause {
	if h["paused"] != "1" {
		return nil
	}
	p := &Pause{Note: parseNote(h)}
	if h["message"] != "" {
		m := Message{VHost: of.VHost, Queue: of.Name, ID: h["id"], Generation: h["generation"]}
		p.Holding = &Holding{m, Cause(h["cause"])}
	}
	return p
}

// consumers returns the processes that consumed a queue within the last minute, sorted by Consumer.
func (a *Admin) consumers(ctx context.Context, of Queue, paused *Pause) (out []ConsumerState, _ error) {
	// A process moves to the front every second, so a later page may miss it. There are as few pages as can be.
	for found, err := range a.pages(ctx, of, setConsumers, Entry{}, longPage) {
		if err != nil {
			return nil, err
		}
		names, some := make([]string, len(found)), make([]ConsumerState, len(found))
		for i, e := range found {
			c, reader := parseReader(e)
			c.Paused = c.Paused && paused != nil && !c.Seen.Before(paused.At) // else it stopped for an earlier pause
			some[i], names[i] = c, docWaiting+reader
		}
		now, docs, err := a.store.Load(ctx, of, names...)
		if err != nil {
			return nil, err
		}
		for i, c := range some {
			if now.Sub(c.Seen).Abs() < forgottenReader {
				if !c.Paused { // else it holds none, whatever it reported in the last seconds
					c.Waiting = parseWaiting(docs[i].Data)
				}
				out = append(out, c)
			}
		}
	}
	slices.SortFunc(out, func(a, b ConsumerState) int {
		return cmp.Or(cmp.Compare(a.Consumer, b.Consumer), b.Seen.Compare(a.Seen))
	})
	return out, nil
}

// parseReader reads an entry of the set of consumers: "<state> <reader> <consumer>". The state is one of readerDigits.
func parseReader(e Entry) (c ConsumerState, reader string) {
	state, rest, _ := strings.Cut(e.Name, " ")
	reader, c.Consumer, _ = strings.Cut(rest, " ")
	c.Seen, c.Paused = rules.Instant(e.Score), state == readerDigits["stopped"]
	c.Breaker = state == readerDigits["breaker"]
	return c, reader
}
