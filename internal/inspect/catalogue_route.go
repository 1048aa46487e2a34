package inspect

// routeTexts are those of the findings about the dead-letter route and the dead-letter queue.
var routeTexts = map[string]text{
	// The dead-letter route
	CodeNoDeadLetterExchange: {
		Error, "neither an argument nor a policy of the queue names a dead-letter exchange",
		lostSilently,
		"set a policy with dead-letter-exchange, or declare the queue again with x-dead-letter-exchange; " +
			"or let its consumers accept the loss (AllowDrop)",
	},
	CodeDeadLetterUnproven: {
		Error, "no argument of the queue names a dead-letter exchange; AMQP cannot see whether a policy does",
		"without one, " + lostSilently,
		"if a policy sets it, give the URL of the management API (Management); else set a policy with " +
			"dead-letter-exchange, " +
			"or declare the queue again with x-dead-letter-exchange; " +
			"or let its consumers accept the loss (AllowDrop)",
	},
	CodeExchangeMissing: {
		Error, "the dead-letter exchange {exchange} does not exist",
		lostSilently,
		"declare the exchange {exchange} and bind a dead-letter queue to it",
	},
	CodeQueueMissing: {
		Error, "the dead-letter exchange is the default exchange, and its routing key {key} names no queue",
		lostSilently,
		"declare the queue {key}",
	},
	"bindings-unknown": {
		Warning, "the bindings of the dead-letter exchange {exchange} cannot be seen over AMQP",
		"with nothing bound to it, " + lostSilently,
		"give the URL of the management API (Management), which shows them",
	},
	CodeUnbound: {
		Error, "nothing is bound to the dead-letter exchange {exchange}",
		lostSilently,
		"bind a dead-letter queue to the exchange {exchange}",
	},
	CodeUnbound + "/key": {
		Error, "the dead-letter exchange {exchange} is {kind} and no binding is for the dead-letter routing key {key}, but " +
			"for {keys}",
		lostSilently,
		"bind a dead-letter queue to the exchange {exchange} with the key {key}",
	},
	CodeUnbound + "/astray": {
		Error, "the dead-letter exchange {exchange} leads to other exchanges, and those to no queue",
		lostSilently,
		"bind a dead-letter queue to the exchange {exchange}",
	},
	"dead-letter-key-open": {
		Warning, "the dead-letter exchange {exchange} is {kind}, and no dead-letter routing key is set: only messages " +
			"published with a key of {keys} reach a queue",
		"a rejected message with another key is lost silently",
		"set the dead-letter routing key, or bind the dead-letter queue to a fanout exchange",
	},
	CodeLoop: {
		Error, "dead letters come back to the queue through {route}",
		"a message that always fails is retried without end: each return begins a new generation with all its attempts, " +
			"and may leave one more dead letter elsewhere",
		"{break}",
	},
	"dead-letter-delay-loop": {
		Warning, "dead letters come back to the queue after a delay through {route}",
		"a message that always fails is retried without end: each return begins a new generation with all its attempts",
		"keep dead letters in a dead-letter queue without a TTL, and use the consumer's backoff to wait between attempts; " +
			"or remove the dead-letter exchange of the {last}",
	},
	CodeAtMostOnce: {
		Warning, "the quorum queue dead-letters at most once",
		"a dead letter is lost if its queue cannot take it at that moment",
		"declare the queue again with x-dead-letter-strategy=at-least-once and x-overflow=reject-publish, or set both " +
			"by policy",
	},
	CodeAtMostOnce + "/overflow": {
		Warning, "the quorum queue falls back to dead lettering at most once: it asks for at least once, but its overflow " +
			"is not reject-publish",
		"a dead letter is lost if its queue cannot take it at that moment",
		"declare the queue again with x-dead-letter-strategy=at-least-once and x-overflow=reject-publish, or set both " +
			"by policy",
	},
	"dead-letter-conflict": {
		Warning, "{arg} is {argument}, and {policy} says {other}",
		"RabbitMQ obeys the argument: a change of the policy has no effect",
		"remove {key} from {policy}, or declare the queue again without {arg}",
	},
	CodePolicyNotApplied: {
		Warning, "policy {policy} matches the queue, and RabbitMQ does not apply it: a {type} queue knows no {foreign}",
		"RabbitMQ applies no key of such a policy: {keys}",
		"remove {foreign} from it, or make two policies with apply-to classic_queues and quorum_queues",
	},

	// The dead-letter queue
	"takes-dead-letters": {
		Warning, "the queue takes the dead letters of {sources}, and has no dead-letter exchange",
		"it needs none while dead letters only wait in it; messages that a consumer rejects from it are lost silently",
		"check the dead-letter route from its source queue",
	},
	"dead-letter-queue-full": {
		Error, "the dead-letter queue {queue} is full: it holds at most {length}, and refuses more",
		lostSilently,
		"replay or drop dead letters of {queue}, or raise its limit",
	},
	"dead-letter-queue-temporary": {
		Warning, "the dead-letter queue {queue} {why}",
		"all dead letters are lost with it, and later ones too",
		"declare it again, durable and without exclusive, auto-delete and x-expires",
	},
	"dead-letter-queue-classic": {
		Warning, "the dead-letter queue {queue} is a classic queue",
		"a killed broker can lose thousands of dead letters: a classic queue keeps them in memory",
		"drain and delete it, then declare it again with x-queue-type=quorum and x-delivery-limit={limit}",
	},
	"dead-letter-queue-ttl": {
		Warning, "dead letters expire after {ms} ms in the queue {queue}",
		"they are lost, or dead-lettered on, maybe back to be retried",
		"{unset}",
	},
	"dead-letter-queue-limited": {
		Error, "the dead-letter queue {queue} holds at most {length}",
		"once it is full, {effect}",
		"declare it again without x-max-length and x-max-length-bytes, and remove max-length and max-length-bytes from " +
			"its policy",
	},
	CodeDeadLetterLimit: {
		Warning, "the dead-letter queue {queue} has {limit}",
		"RabbitMQ deletes a dead letter that was read and returned that often",
		"set the delivery limit {want} by policy",
	},
	CodeDeadLetterLimit + "/argument": {
		Warning, "the dead-letter queue {queue} has {limit}",
		"RabbitMQ deletes a dead letter that was read and returned that often",
		"declare it again with x-delivery-limit={want}",
	},
}
