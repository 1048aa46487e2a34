package deadletter

import (
	"maps"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Target is where replayed messages go.
type Target struct {
	Exchange string // "" is the default exchange, where Key is the queue
	Key      string // if empty and Exchange is not, the key with which the message was published first
}

// destination is where a letter goes; nil: to where it died.
func (t *Target) destination(l *Message) (Target, error) {
	switch {
	case t == nil && l.Origin.Queue == "":
		return Target{}, ErrNoOrigin
	case t == nil:
		return Target{Key: l.Origin.Queue}, nil
	case t.Key == "":
		return Target{Exchange: t.Exchange, Key: l.Origin.Key}, nil
	}
	return *t, nil
}

// revive makes of a dead letter the message that is published: the same, with
// a new life, which the letter notes, and its lineage, and without what the broker would act on or
// refuse:
//
//   - x-death and the like: RabbitMQ 3.10 goes on counting in an x-death that it
//     is sent, and they are of the life that is over;
//   - CC and BCC: the copies would go to queues in which nothing died;
//   - the user-id: only that user may publish it.
//
// It is persistent, whatever it was: it has been lost from one queue already.
func revive(l *Message, from string, now time.Time) amqp.Publishing {
	msg, replays := l.Publishing, l.Replays+1
	l.life = nextLife(replays, l.Origin, now)
	msg.Headers = maps.Clone(msg.Headers)
	if msg.Headers == nil {
		msg.Headers = amqp.Table{}
	}
	maps.DeleteFunc(msg.Headers, func(name string, _ any) bool { return ofTheBroker(name) })
	msg.Headers[GenerationHeader] = l.life
	msg.Headers[FenceHeader] = nextFence(l, now)
	msg.Headers[LineageHeader] = lineage(l, from, replays)
	msg.UserId, msg.DeliveryMode = "", amqp.Persistent
	return msg
}

// ForReplay is the message as a replay from the dead-letter queue publishes it: with a new life, and without what the broker
// noted on it. It is what to keep of a letter that is to be published again by other means.
func (l *Message) ForReplay(from string) amqp.Publishing { return revive(l, from, time.Now()) }

func ofTheBroker(header string) bool {
	switch header {
	case "CC", "BCC", "x-death", "x-delivery-count", "x-acquired-count", LineageHeader:
		return true
	}
	return strings.HasPrefix(header, "x-first-death-") || strings.HasPrefix(header, "x-last-death-")
}

func lineage(l *Message, from string, replays int64) amqp.Table {
	t := amqp.Table{"count": replays, "from": from, "again": l.Redelivered}
	if l.Origin.Queue != "" {
		t["queue"], t["died"] = l.Origin.Queue, l.Origin.Time
		t["exchange"], t["key"] = l.Origin.Exchange, l.Origin.Key
	}
	if reason := cut(l.Reason(), maxReason); reason != "" {
		t["reason"] = reason
	}
	if l.Publishing.UserId != "" {
		t["user"] = l.Publishing.UserId
	}
	return t
}

// cut shortens s to so many bytes, and leaves no part of a character.
func cut(s string, most int) string {
	if len(s) > most {
		s = s[:most]
	}
	return strings.ToValidUTF8(s, "")
}
