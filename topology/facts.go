package topology

import amqp "github.com/rabbitmq/amqp091-go"

// facts are what was learned of a queue; the rules judge nothing else.
type facts struct {
	product string // "RabbitMQ"
	version version
	vhost   string
	queue   string
	console console

	declared
	unread    string // why declared is not known; empty when it is
	denied    bool   // unread for want of a permission
	exclusive bool
	transit   bool // a queue of a loop, which has a finding of its own

	policyName  string
	policy      amqp.Table // the effective definition; an operator's is merged in
	policyKnown bool       // false: there may be one, or there may be none
	operator    amqp.Table // what an operator's policy alone says
	policies    policySet  // of the virtual host
	unasked     bool       // Examine was given no management API
	apiTrouble  string     // why the management API, which was given, tells nothing

	way    way
	astray bool     // the dead letters reach exchanges but no queue
	route  route    // from the queue on
	known  graph    // what was looked up for it
	vitals *vitals  // nil: not looked for, or not known
	full   []target // dead-letter queues that refuse a message now; only CheckRoute looks
}

// vitals are what only Examine looks for.
type vitals struct {
	consumers  []apiConsumer
	messages   int64
	persistent int64
	priorities int64    // in use; told by quorum queues from 4.3 on
	targets    []target // queues that the dead letters reach
	back       bool     // they also reach the queue itself
}

// way is where a dead letter of the queue goes.
type way struct {
	exchange answer // does it exist
	queue    answer // does the one queue that the default exchange leads to exist

	kind      string // of the exchange: "fanout", "direct", …; empty: not known
	bindings  []apiBinding
	bound     bool // bindings are known
	alternate bool // unrouted messages may have somewhere else to go

	alternateTo string // the exchange that they go to, where it is known
}

// answer to a question that may not have been put.
type answer int8

const (
	unknown answer = iota
	no
	yes
)

// text is a string argument, or what a policy says where there is none: so
// does RabbitMQ decide for the dead-letter settings.
func (f facts) text(arg, key string) (string, bool) {
	if s, ok := f.args[arg].(string); ok {
		return s, true
	}
	s, ok := f.policy[key].(string)
	return s, ok
}

func (f facts) deadLetterExchange() (string, bool) {
	return f.text(argDeadLetterExchange, "dead-letter-exchange")
}

func (f facts) deadLetterKey() (string, bool) {
	return f.text(argDeadLetterKey, "dead-letter-routing-key")
}

func (f facts) deadLetterStrategy() string {
	s, _ := f.text(argStrategy, "dead-letter-strategy")
	return s
}

// overflow is the one setting of these for which a policy beats the argument.
func (f facts) overflow() string {
	if s, ok := f.policy["overflow"].(string); ok {
		return s
	}
	s, _ := f.args[argOverflow].(string)
	return s
}

// smaller is a number as argument and policy make it: the smaller one.
func (f facts) smaller(arg, key string) (int64, bool) {
	a, byArg := f.args[arg].(int64)
	p, byPolicy := f.policy[key].(int64)
	switch {
	case byArg && byPolicy:
		return min(a, p), true
	case byPolicy:
		return p, true
	}
	return a, byArg
}

// deliveryLimit of a quorum queue, as argument and policy make it: the smaller
// one, but from 4.0 on, where a negative one means none, the larger if one of
// them is negative. Measured on 3.10.8, 4.0.5 and 4.3.6.
func (f facts) deliveryLimit() (int64, bool) {
	arg, byArg := f.args[argDeliveryLimit].(int64)
	policy, byPolicy := f.policy["delivery-limit"].(int64)
	switch {
	case !byPolicy:
		return arg, byArg
	case !byArg:
		return policy, true
	case !f.version.before(4, 0) && min(arg, policy) < 0:
		return max(arg, policy), true
	}
	return min(arg, policy), true
}
