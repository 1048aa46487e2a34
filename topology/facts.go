package topology

import (
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/internal/queueinfo"
)

// facts are what was learned of a queue; the rules judge nothing else.
type facts struct {
	product string // "RabbitMQ"
	console console

	queueinfo.Queue
	transit bool // a queue of a loop, which has a finding of its own

	operator   amqp.Table // what an operator's policy alone says
	policies   policySet  // of the virtual host
	unasked    bool       // Examine was given no management API
	apiTrouble string     // why the management API, which was given, tells nothing

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
	exchange queueinfo.Answer // does it exist
	queue    queueinfo.Answer // does the one queue that the default exchange leads to exist

	kind      string // of the exchange: "fanout", "direct", …; empty: not known
	bindings  []apiBinding
	bound     bool // bindings are known
	alternate bool // unrouted messages may have somewhere else to go

	alternateTo string // the exchange that they go to, where it is known
}
