// Package broker connects to RabbitMQ and describes queues: their types, arguments, limits and depths, and where a
// requeued message goes. It also reads the deaths and the generation of a message from its headers. It asks AMQP, and
// the management API for facts that only that knows. Facts about RabbitMQ were measured on single nodes of 3.10.8,
// 4.0.5 and 4.3.6.
package broker

import (
	"fmt"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/internal/printable"
)

// Types of queues.
const (
	Classic = "classic"
	Quorum  = "quorum"
	Stream  = "stream"
)

// Declared is how a queue was declared.
type Declared struct {
	Type       string // Classic, Quorum, Stream; empty if not known
	Durable    bool
	AutoDelete bool
	Args       amqp.Table
}

// Queue has the known facts about a queue.
type Queue struct {
	Name    string
	VHost   string
	Version Version // of the broker

	Declared
	Unread    string // why Declared is not known; empty if it is
	Denied    bool   // Unread for lack of a permission
	Exclusive bool   // to one connection
	Away      bool   // it does not answer: its node is down, or it is a quorum queue without a majority of its members
	Consumed  bool   // it had consumers when API.List listed it

	PolicyName  string     // empty: none, or an operator's alone
	Policy      amqp.Table // the effective definition, an operator's merged in
	PolicyKnown bool       // false: a policy may apply that is not known

	OperatorPolicy amqp.Table // the part of Policy that an operator set
	operatorName   string     // of its policy, as the API shows it
}

// PolicyKey is the key of a policy that sets the same as an argument of a queue.
func PolicyKey(arg string) string { return strings.TrimPrefix(arg, "x-") }

// Text is a string argument, or the policy's value if the argument is not set. RabbitMQ decides so for dead-letter
// settings.
func (q Queue) Text(arg string) (string, bool) {
	if s, ok := q.Args[arg].(string); ok {
		return s, true
	}
	s, ok := q.Policy[PolicyKey(arg)].(string)
	return s, ok
}

// DeadLetterExchange is the exchange that rejected messages go to, and whether there is one.
func (q Queue) DeadLetterExchange() (string, bool) { return q.Text(ArgDeadLetterExchange) }

// DeadLetterKey is the routing key of dead letters. Without one they keep their own.
func (q Queue) DeadLetterKey() (string, bool) { return q.Text(ArgDeadLetterKey) }

// DeadLetterStrategy is "at-least-once", "at-most-once", or empty, which means at most once.
func (q Queue) DeadLetterStrategy() string {
	s, _ := q.Text(ArgStrategy)
	return s
}

// KeepsDeadLetters reports whether the queue keeps each dead letter until a queue has taken it.
func (q Queue) KeepsDeadLetters() bool {
	_, set := q.DeadLetterExchange()
	return set && q.Type == Quorum && q.DeadLetterStrategy() == "at-least-once" && q.Overflow() == "reject-publish"
}

// Overflow is the behaviour of a full queue, such as "reject-publish". It is the only one of these settings for which
// a policy beats the argument.
func (q Queue) Overflow() string {
	if s, ok := q.Policy["overflow"].(string); ok {
		return s
	}
	s, _ := q.Args[ArgOverflow].(string)
	return s
}

// DropsHead reports whether a full queue drops or dead-letters its oldest message.
func (q Queue) DropsHead() bool {
	o := q.Overflow()
	return o == "" || o == "drop-head"
}

// Smaller is a number that argument and policy may set: the smaller one applies.
func (q Queue) Smaller(arg string) (int64, bool) {
	a, byArg := q.Args[arg].(int64)
	p, byPolicy := q.Policy[PolicyKey(arg)].(int64)
	switch {
	case byArg && byPolicy:
		return min(a, p), true
	case byPolicy:
		return p, true
	}
	return a, byArg
}

// TTL is the time in ms after which a message in the queue expires.
func (q Queue) TTL() (int64, bool) { return q.Smaller(ArgTTL) }

// Expires is the time in ms after which the queue is deleted if it has no consumer.
func (q Queue) Expires() (int64, bool) { return q.Smaller(ArgExpires) }

// MaxLength is how many messages the queue holds.
func (q Queue) MaxLength() (int64, bool) { return q.Smaller(ArgMaxLength) }

// Limited reports whether the queue holds a limited number of messages or bytes.
func (q Queue) Limited() bool {
	_, byBytes := q.Smaller(ArgMaxLengthBytes)
	_, byMessages := q.MaxLength()
	return byBytes || byMessages
}

// LengthText is the length limit as text, such as "5 messages".
func (q Queue) LengthText() string {
	n, set := q.MaxLength()
	thing := "message"
	if !set {
		n, _ = q.Smaller(ArgMaxLengthBytes)
		thing = "byte"
	}
	return printable.Plural(int(n), thing)
}

// SingleActive reports whether one consumer at a time gets messages.
func (q Queue) SingleActive() bool {
	on, _ := q.Args[ArgSingleActive].(bool)
	return on
}

// Scratch begins the names of the queues on which a probe tries something.
const Scratch = "strikes.probe."

// Retried reports whether consumers may retry from such a queue.
func (q Queue) Retried() bool {
	return !q.Exclusive && q.Type != Stream && !IsDelayQueue(q.Name) && !strings.HasPrefix(q.Name, Scratch)
}

// DeliveryLimit of a quorum queue, and whether argument or policy sets one. The smaller one applies. From 4.0 on a
// negative one means none, and the larger one applies if either is negative. Measured on 3.10.8, 4.0.5 and 4.3.6.
func (q Queue) DeliveryLimit() (int64, bool) {
	arg, byArg := q.Args[ArgDeliveryLimit].(int64)
	policy, byPolicy := q.Policy["delivery-limit"].(int64)
	if byArg && byPolicy && !q.Version.Before(4, 0) && min(arg, policy) < 0 {
		return max(arg, policy), true
	}
	return q.Smaller(ArgDeliveryLimit)
}

// Position is where a requeued message goes.
type Position int

// Where a requeued message goes.
const (
	PositionUnknown   Position = iota // neither a classic nor a quorum queue, or the version of the broker is not known
	PositionOriginal                  // its original position, before messages that came after it
	PositionHead                      // the head, behind messages that were returned before it
	PositionTail                      // the tail, behind all others
	PositionDiscarded                 // nowhere: the first return discards it
)

// EnoughReturns is the delivery limit from which on a dead-letter queue may be read, however often its messages were
// returned before: a message brings its count along from the queue in which it died (RabbitMQ 4.3), so the counts of
// a queue are never known for certain.
const EnoughReturns = 1_000_000

// brokerDeliveryLimit is that of a quorum queue without one, from RabbitMQ 4.0 on.
const brokerDeliveryLimit = 20

// Requeue is where a requeued message goes, by type, version and delivery limit:
//
//	                        3.10       4.0          4.3
//	classic                 original   original     original
//	quorum, no limit        tail       head, to 20  head, to 20
//	quorum, limit N > 0     head, to N head, to N   head, to N
//	quorum, limit -1        discarded  tail         head
//
// A policy that is not known may set another limit: see PolicyKnown.
func (q Queue) Requeue() Position {
	limit, set := q.DeliveryLimit()
	switch {
	case q.Type == Classic:
		return PositionOriginal
	case q.Type != Quorum || q.Version == (Version{}):
		return PositionUnknown
	case set && limit < 0 && q.Version.Before(4, 0):
		return PositionDiscarded
	case !set && q.Version.Before(4, 0), set && limit < 0 && q.Version.Before(4, 3):
		return PositionTail
	}
	return PositionHead
}

// ReturnLimit is how often a message may return to a quorum queue before the broker dead-letters or drops it, and
// whether there is such a limit. A message is delivered once more than that.
func (q Queue) ReturnLimit() (int64, bool) {
	limit, set := q.DeliveryLimit()
	switch {
	case q.Type != Quorum || set && limit < 0 || !set && q.Version.Before(4, 0):
		return 0, false
	case !set:
		return brokerDeliveryLimit, true
	}
	return limit, true
}

// Arguments of a queue.
const (
	ArgType               = "x-queue-type"
	ArgDeadLetterExchange = "x-dead-letter-exchange"
	ArgDeadLetterKey      = "x-dead-letter-routing-key"
	ArgStrategy           = "x-dead-letter-strategy"
	ArgOverflow           = "x-overflow"
	ArgDeliveryLimit      = "x-delivery-limit"
	ArgSingleActive       = "x-single-active-consumer"
	ArgMaxPriority        = "x-max-priority"
	ArgDelayedRetry       = "x-delayed-retry-type"
	ArgTTL                = "x-message-ttl"
	ArgExpires            = "x-expires"
	ArgMaxLength          = "x-max-length"
	ArgMaxLengthBytes     = "x-max-length-bytes"
)

// ArgPriority is an argument of a consumer: its priority; absent, 0.
const ArgPriority = "x-priority"

// DefaultDeliveryLimit is the delivery limit with which a queue is declared. It is far above any number of retries. It
// still ends the loop of a message that no client can decode, each delivery of which costs the connection.
const DefaultDeliveryLimit = 1000

// DeadLetterLimit is the delivery limit of a dead-letter queue: dead letters may be read any number of times. A quorum
// queue without a limit deletes a message at the 21st return (4.0.5, 4.3.6), and one with the limit -1 at the first
// (3.10.8). All versions take a positive limit alike, and return the message to the head of the queue.
const DeadLetterLimit = 1<<31 - 1

// ExchangeFor names the dead-letter exchange that a queue gets if nothing else is asked for.
func ExchangeFor(queue string) string { return queue + ".dlx" }

// DeadLetterQueueFor names the dead-letter queue that a queue gets if nothing else is asked for.
func DeadLetterQueueFor(queue string) string { return queue + ".dlq" }

// DeadLetterArguments are those of a dead-letter queue.
func DeadLetterArguments() amqp.Table {
	return amqp.Table{ArgType: Quorum, ArgDeliveryLimit: int64(DeadLetterLimit)}
}

// Merge copies tables into a new one; later ones win.
func Merge(tables ...amqp.Table) amqp.Table {
	out := amqp.Table{}
	for _, t := range tables {
		for k, v := range t {
			out[k] = v
		}
	}
	return out
}

// Version is a release of RabbitMQ, as far as its behavior differs. The zero version could not be read.
type Version struct{ Major, Minor int }

// VersionOf is the version of the broker that a connection leads to.
func VersionOf(conn *amqp.Connection) Version {
	release, _ := conn.Properties["version"].(string)
	v, _ := ParseVersion(release)
	return v
}

// ParseVersion reads "3.10.8", "4.3.6+2.g0123" or "4.1.0-rc.1".
func ParseVersion(s string) (Version, bool) {
	var v Version
	if _, err := fmt.Sscanf(s, "%d.%d", &v.Major, &v.Minor); err != nil || v.Major < 0 || v.Minor < 0 {
		return Version{}, false
	}
	return v, true
}

// Before reports whether the version is older than major.minor.
func (v Version) Before(major, minor int) bool {
	return v.Major < major || v.Major == major && v.Minor < minor
}

// String is "4.3", or "of unknown version".
func (v Version) String() string {
	if v == (Version{}) {
		return "of unknown version"
	}
	return fmt.Sprintf("%d.%d", v.Major, v.Minor)
}
