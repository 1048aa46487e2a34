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
)

// ErrPaused is wrapped by Pause if the queue is paused already, and ErrNotPaused by Resume if it is not: nothing is
// done.
var (
	ErrPaused    = errors.New("the queue is paused already")
	ErrNotPaused = errors.New("the queue is not paused")
)

// ConsumerState is a process that consumes a queue.
type ConsumerState struct {
	Consumer string // the process
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
	return a.setPaused(ctx, Queue{vhost, queue}, true, n)
}

// Resume ends the pause of a queue. If a message holds the queue, its next step pauses it again. The Note may be empty.
// After an error of the store the queue may or may not be paused; it is safe to repeat.
func (a *Admin) Resume(ctx context.Context, vhost, queue string, n Note) error {
	return a.setPaused(ctx, Queue{vhost, queue}, false, n)
}

// HoldQueue pauses a queue for a message that cannot be counted, because it has no id. The Note says which consumer
// does it, and why. Only Resume ends the pause. HoldQueue is safe to repeat after an error.
func (c *Counter) HoldQueue(ctx context.Context, vhost, queue string, n Note) error {
	err := c.setPaused(ctx, Queue{vhost, queue}, true, n)
	if errors.Is(err, ErrPaused) {
		return nil
	}
	return err
}

// setPaused pauses or resumes a queue. A pause for a message that holds the queue becomes the operator's, so that it
// does not end with a decision about the message. After a resume the message still holds the queue: its next START
// pauses it again.
func (c *client) setPaused(ctx context.Context, of Queue, paused bool, n Note) error {
	doing, already := "resume", ErrNotPaused
	if paused {
		doing, already = "pause", ErrPaused
	}
	n = keptNote(n)
	err := c.insist(ctx, of, []string{docPause}, func(now time.Time, docs []Doc) (Change, error) {
		d := docs[0]
		if d.Err != nil {
			return Change{}, d.Err
		}
		fields := decodeFields(d.Data)
		if is := fields["paused"] == "1"; is == paused && !(paused && fields["only"] == "1") {
			return Change{}, already
		}
		now = now.Truncate(time.Millisecond)
		maps.Copy(fields, map[string]string{"paused": strconv.Itoa(rules.Flag(paused)), "by": n.By, "why": n.Why,
			"at": decimal(now.UnixMilli())})
		delete(fields, "only")
		d.Data, d.Expires = encodeFields(fields), now.Add(rules.PauseTTL)
		return Change{Docs: []Doc{d}}, nil
	})
	return failed(doing, of.Name, err)
}

// Pause is the pause of a queue.
type Pause struct {
	Note
	Holding *Holding // the message for which the queue is paused; nil: none
}

// Paused returns the pause of a queue; nil without an error if the queue is not paused.
func (a *Admin) Paused(ctx context.Context, vhost, queue string) (*Pause, error) {
	h, err := a.fields(ctx, Queue{vhost, queue}, docPause)
	if err != nil || h["paused"] != "1" {
		return nil, failed("paused", queue, err)
	}
	return &Pause{parseNote(h), holdingOf(h, Queue{vhost, queue})}, nil
}

// holdingOf reads the message that holds a queue from the fields of its pause; nil: none does.
func holdingOf(h map[string]string, of Queue) *Holding {
	if h["message"] == "" {
		return nil
	}
	return &Holding{
		Message: Message{VHost: of.VHost, Queue: of.Name, ID: h["id"], Generation: h["generation"]},
		Cause:   Cause(h["cause"]), Since: millis(h["since"]), Only: h["only"] == "1",
	}
}

// Consumers returns the processes that consumed a queue within the last minute, sorted by Consumer. A process that has
// left is not among them. Compare Seen with Now: a process that was not seen for a few seconds is dead, or does not
// reach the store.
func (a *Admin) Consumers(ctx context.Context, vhost, queue string) ([]ConsumerState, error) {
	paused, err := a.Paused(ctx, vhost, queue)
	if err != nil {
		return nil, err
	}
	found, err := a.consumers(ctx, Queue{vhost, queue}, paused)
	return found, failed("consumers", queue, err)
}

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
