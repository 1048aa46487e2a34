package broker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	amqp "github.com/rabbitmq/amqp091-go"
)

// ErrNotFound says that a queue does not exist in the virtual host of the connection.
var ErrNotFound = errors.New("queue not found")

// Answer to a question that may not have been put.
type Answer int8

// What is known.
const (
	Unknown Answer = iota
	No
	Yes
)

// Passive returns the number of ready messages and of consumers of a queue. An error closes the channel, such as 404
// for a queue that does not exist. From RabbitMQ 4.0 on it needs any one permission on the queue; 3.10.8 needs none.
func Passive(ch *amqp.Channel, queue string) (amqp.Queue, error) {
	return ch.QueueDeclarePassive(queue, false, false, false, false, nil)
}

// ErrAway says that a queue does not answer. See IsAway.
var ErrAway = errors.New("its node is down, or does not answer")

// queueAnswers is how long a queue may take to answer. RabbitMQ 4.3.6 answers about a classic queue whose node was
// killed after 64 s. It gives up a quorum queue without a majority after 5 s (3.10.8).
const queueAnswers = 10 * time.Second

// hintAnswers is queueAnswers where the answer only saves other questions.
const hintAnswers = time.Second

// FindQueue is Passive on a channel of its own, and says whether the queue exists. No queue has a name that CheckName
// refuses, such as one that is derived from a long one. A queue is away if it does not answer for 10 s, or for a third
// of the time that ctx leaves. A refusal is an error too: see UnlessRefused.
func FindQueue(ctx context.Context, conn *amqp.Connection, queue string) (Answer, amqp.Queue, error) {
	return findQueue(ctx, conn, queue, queueAnswers)
}

func findQueue(ctx context.Context, conn *amqp.Connection, queue string, wait time.Duration) (Answer, amqp.Queue,
	error) {
	if CheckName(queue) != nil {
		return No, amqp.Queue{}, nil
	}
	var q amqp.Queue
	found, err := askQueues(ctx, conn, wait, func(_ *amqp.Channel, passive passive) (err error) {
		q, err = passive(queue)
		return err
	})
	if err != nil { // q may be written yet
		return found, amqp.Queue{}, err
	}
	return found, q, nil
}

// passive is Passive on a channel, within a time.
type passive func(queue string) (amqp.Queue, error)

// askQueues gives f a channel and the function Passive for it, and returns ErrAway for a queue that does not answer in
// time. As with OnChannel, f then goes on.
func askQueues(ctx context.Context, conn *amqp.Connection, wait time.Duration,
	f func(*amqp.Channel, passive) error) (Answer, error) {
	ctx, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	return ask(ctx, conn, func(ch *amqp.Channel) error { // the broker answers; does the queue?
		return f(ch, func(queue string) (amqp.Queue, error) {
			wait := wait
			if end, set := ctx.Deadline(); set {
				wait = min(wait, time.Until(end)/3)
			}
			defer time.AfterFunc(wait, func() { giveUp(fmt.Errorf("queue %q: %w", queue, ErrAway)) }).Stop()
			q, err := Passive(ch, queue)
			return q, named(conn, "queue", queue, err)
		})
	})
}

// named names the queue or exchange about which the broker could not answer: see CutRefusal.
func named(conn *amqp.Connection, kind, name string, err error) error {
	if !CutRefusal(err, conn.Config.Vhost+name) {
		return err
	}
	return fmt.Errorf("%s %q does not exist, or may not be seen: its name is not ASCII, and too long for an answer: %w",
		kind, name, err)
}

// FindExchange says whether an exchange exists. A refusal is an error too: see UnlessRefused.
func FindExchange(ctx context.Context, conn *amqp.Connection, name string) (Answer, error) {
	return ask(ctx, conn, func(ch *amqp.Channel) error {
		return named(conn, "exchange", name, ch.ExchangeDeclarePassive(name, "", false, false, false, false, nil))
	})
}

func ask(ctx context.Context, conn *amqp.Connection, declare func(*amqp.Channel) error) (Answer, error) {
	err := OnChannel(ctx, conn, declare)
	switch {
	case err == nil:
		return Yes, nil
	case IsMissing(err):
		return No, nil
	}
	return Unknown, err
}

// IsMissing reports whether the broker replied that a queue or an exchange does not exist.
func IsMissing(err error) bool {
	var reply *amqp.Error
	return errors.As(err, &reply) && reply.Code == amqp.NotFound && strings.HasPrefix(reply.Reason, "NOT_FOUND - no ")
}

// IsAway reports whether a queue exists, and its node is down or does not answer in time. The broker replies so of a
// classic queue, with 404 too (3.10.8, 4.3.6).
func IsAway(err error) bool {
	var reply *amqp.Error
	return errors.Is(err, ErrAway) || errors.As(err, &reply) && reply.Code == amqp.NotFound && !IsMissing(err)
}

// UnlessRefused drops the error of a question that the broker refused, or that a queue did not answer: the answer is
// unknown.
func UnlessRefused(err error) error {
	var reply *amqp.Error
	if errors.Is(err, ErrAway) || errors.As(err, &reply) && isRefusal(reply.Code) {
		return nil
	}
	return err
}

// CutRefusal reports whether err is a 541 that stands for a refusal. The broker closes the connection with 541 if a
// refusal is over 255 bytes and the names in it are not ASCII (4.0.5, 4.3.6). Use it only for a request that has no
// other reason for a 541.
func CutRefusal(err error, names string) bool {
	var closed *amqp.Error
	return errors.As(err, &closed) && Unconverted(closed) && !ascii(names)
}

// LongestName returns how many bytes a name may have, so that the broker can answer that there is no such queue or
// exchange: see CutRefusal. RabbitMQ 3.10.8 answers about every name.
func LongestName(conn *amqp.Connection, name string) int {
	vhost := conn.Config.Vhost
	if ascii(vhost+name) || VersionOf(conn).Before(4, 0) {
		return maxName
	}
	return maxName - len("NOT_FOUND - no exchange '' in vhost ''") - len(vhost)
}

func isRefusal(code int) bool {
	return code == amqp.PreconditionFailed || code == amqp.AccessRefused || code == amqp.ResourceLocked ||
		code == amqp.NotFound
}

// lastReply is how long a request that is under way may take once its context is done.
const lastReply = time.Second

// OnChannel runs f on a channel of its own, because a refusal closes the channel. If ctx ends, OnChannel waits a second
// and returns an error that wraps its cause. A call of amqp091 that has begun takes no context, and to close its
// channel or connection waits for the same reply (4.3.6). So f goes on until the broker answers or the connection ends.
// After an error do not read variables that f writes.
func OnChannel(ctx context.Context, conn *amqp.Connection, f func(*amqp.Channel) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if conn == nil {
		return ErrNoConnection
	}
	done := make(chan error, 1)
	go func() {
		err := errors.New("the request ended its goroutine instead of returning")
		defer func() { done <- err }()
		err = onChannel(conn, f)
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	cause, wait := context.Cause(ctx), lastReply
	if IsAway(cause) { // the queue had its time
		wait = 0
	} else {
		cause = fmt.Errorf("the broker did not answer (%w)", cause)
	}
	select {
	case err := <-done:
		return err
	case <-time.After(wait):
		return cause
	}
}

// ErrNoConnection is returned by OnChannel and Look for a nil connection.
var ErrNoConnection = errors.New("the connection is nil; dial the broker first")

func onChannel(conn *amqp.Connection, f func(*amqp.Channel) error) error {
	ch, err := conn.Channel()
	if err != nil {
		return err
	}
	err = f(ch)
	if closeErr := ch.Close(); err == nil && !errors.Is(closeErr, amqp.ErrClosed) {
		return closeErr
	}
	return err
}

// maxName is the length of an AMQP short string, in bytes.
const maxName = 255

// CheckName returns nil for a name that a queue or an exchange can be declared with, else an error about its defect.
// Check a name before the broker is asked about it. A name that is not UTF-8 ends the connection (501). A line break
// is removed, so that the answer is about another queue. Measured on 3.10.8 and 4.3.6.
func CheckName(name string) error {
	switch {
	case name == "":
		return errors.New("the name is empty")
	case !utf8.ValidString(name):
		return fmt.Errorf("the name %q is not UTF-8, which RabbitMQ requires", name)
	case strings.ContainsAny(name, "\r\n"):
		return fmt.Errorf("the name %q has a line break: RabbitMQ removes it and means another queue", name)
	case len(name) > maxName:
		return fmt.Errorf("the name %q has %d bytes: AMQP allows %d", name, len(name), maxName)
	}
	return nil
}

// Undecodable returns the defect of a message that ended a connection, and how to remove it from its queue. Both are
// empty if no message did. Either amqp091-go cannot decode the message, or the broker cannot convert it: see
// Unconverted. The library's reader reports ErrSyntax and ErrFrameTooLarge only by their texts, as the reason of a
// frame error. The management API decodes such messages (tried on 4.3).
func Undecodable(closed *amqp.Error) (wrong, fix string) {
	switch {
	case Unconverted(closed):
		return "the broker closed the connection with 541, as it does for a message that it cannot convert to AMQP 0.9.1: " +
			"one published over AMQP 1.0, for example with a property of type uuid or a content type over 255 bytes", takeOut1
	case closed == nil || closed.Server:
		return "", ""
	case strings.Contains(closed.Reason, amqp.ErrSyntax.Reason):
		return "its headers are nested deeper than 32 levels, or hold over 8,192 elements", takeOut
	case strings.Contains(closed.Reason, amqp.ErrFrameTooLarge.Reason):
		return "its headers have outgrown a frame", "raise frame_max in the broker's configuration; or " + takeOut
	}
	return "", ""
}

// Unconverted reports whether the broker closed a connection as it does when it cannot convert a message to AMQP
// 0.9.1 (4.0.5, 4.3.6). RabbitMQ uses this code for its other internal errors too. So only a connection that receives
// one message at a time blames a message rightly, and only one that meets it repeatedly is sure.
func Unconverted(closed *amqp.Error) bool {
	return closed != nil && closed.Server && closed.Code == amqp.InternalError
}

// noMajority is less than the 5 s that RabbitMQ waits for the majority of a quorum queue's members (3.10.8).
const noMajority = 4 * time.Second

// Unanswered reports whether a connection ended because the queue did not answer a request of that time, if it is not
// zero: the broker gave up with 541, or the client closed it. A quorum queue without a majority of its members does not
// answer. A message that the broker cannot convert ends the connection with 541 too, but at once; one that the client
// cannot decode ends it with a reason of its own.
func Unanswered(closed *amqp.Error, asked time.Time) bool {
	if closed == nil || asked.IsZero() || time.Since(asked) < noMajority {
		return false
	}
	wrong, _ := Undecodable(closed)
	return Unconverted(closed) || !closed.Server && wrong == ""
}

const (
	takeOut = "take it out: stop the consumers, and in the management UI use Get messages with Reject requeue false; a " +
		"quorum queue dead-letters it by itself at its delivery limit"
	takeOut1 = "take it out with an AMQP 1.0 receiver, because the management API cannot read it either " +
		"(docs/operations.md#a-message-cannot-be-decoded has one); a quorum queue dead-letters it by itself at its " +
		"delivery limit"
)
