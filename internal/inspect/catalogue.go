package inspect

// Codes that other packages ask for. The code of an entry is its name up to the slash.
const (
	CodeUnknown              = "arguments-unknown" // stands for all other findings of a queue that cannot be read
	CodeDenied               = "arguments-denied"  // the same, for lack of a permission
	CodeNoDeadLetterExchange = "no-dead-letter-exchange"
	CodeDeadLetterUnproven   = "dead-letter-unproven"
	CodeExchangeMissing      = "dead-letter-exchange-missing"
	CodeQueueMissing         = "dead-letter-queue-missing"
	CodeUnbound              = "dead-letter-unbound"
	CodeAtMostOnce           = "dead-letter-at-most-once"
	CodeLoop                 = "dead-letter-loop"
	CodeTail                 = "requeue-to-tail"
	CodeDiscard              = "requeue-discards"
	CodeLimitLow             = "delivery-limit-low"
	CodeLimitTight           = "delivery-limit-tight"
	CodeDropsHead            = "drops-head"
	CodeDeadLetterLimit      = "dead-letter-queue-delivery-limit"
	CodePolicyNotApplied     = "policy-not-applied"
	CodeNoQueue              = "queue-not-found"
	CodeMinority             = "queue-minority"
	CodeMemberDown           = "queue-member-down"
	CodeNodeDown             = "queue-node-down"
	CodeDeadLetterNodeDown   = "dead-letter-queue-node-down"
	CodeAlarm                = "broker-alarm"
	CodeNoStore              = "store-unreachable"
	CodeNoConsumer           = "no-consumer"
	CodeStoreDenied          = "store-denied"
	CodeNoDatabase           = "store-database-missing"
	CodeNotStore             = "store-other-protocol"
	CodeNotSingleActive      = "not-single-active"
)

// text is the text of a finding: the fact, its impact, and the fix. The rules fill in the {names}.
type text struct {
	severity          Severity
	seen, impact, fix string
}

const (
	doomedByPause = "the consumers of a paused queue stop, so the broker deletes it with all its messages"
	lostSilently  = "rejected messages are lost silently"
	publishers    = "the cluster blocks every connection that publishes: publishers wait, and so do replays and retries " +
		"through delay queues"
	startNode = "start the node; do not delete the queue, because the node holds its messages; a quorum queue with " +
		"members on three nodes stays up (strikes declare)"
	notCounted = "no failure can be counted: messages that have failed are held until their session ends, then return " +
		"to the queue; the attempt is not counted"
)

var unreadable = text{
	Error, "the declaration of the queue cannot be read: {reason}",
	"requeued messages may lose their position, and rejected ones may be lost",
	"give the URL of the management API (Check.Management), or grant the permission to configure the queue " +
		"(nothing is created or changed with it); or set a check of your own",
}

// catalogue holds the text of every finding, by code and variant.
var catalogue = map[string]text{
	// What can be seen
	CodeNoQueue: {
		Error, "there is no such queue in virtual host {vhost}{similar}",
		"nothing can be consumed from it",
		"declare it (strikes declare {queue}), or correct the name or the virtual host",
	},
	"broker-unmeasured": {
		Warning, "the broker is {product}, version {version}",
		"where it puts requeued messages was measured for RabbitMQ 3.10 and later only",
		"use RabbitMQ 4.3, or test retries and dead lettering on this broker first",
	},
	CodeAlarm: {
		Error, "the alarm {resource} is on, on {nodes}",
		publishers,
		"end the cause of the alarm; publishers go on by themselves",
	},
	CodeAlarm + "/memory": {
		Error, "the memory alarm is on, on {nodes}",
		publishers,
		"consume or purge what fills the memory of these nodes, or raise vm_memory_high_watermark; publishers go on by " +
			"themselves",
	},
	CodeAlarm + "/disk": {
		Error, "the disk alarm is on, on {nodes}",
		publishers,
		"free space on the disk of these nodes, or lower disk_free_limit; publishers go on by themselves",
	},
	"alarms-unknown": {
		Warning, "the alarms of the broker were not examined: {reason}",
		"if the memory alarm or the disk alarm is on, " + publishers,
		"give a management API that answers (Check.Management), or run rabbitmq-diagnostics check_alarms on a node",
	},
	"broker-unsupported": {
		Warning, "the broker is RabbitMQ {release}",
		"the community no longer fixes RabbitMQ {version}: bugs and security holes stay open without a vendor's support",
		"upgrade to the latest release, one minor version after the other",
	},
	"delay-queue-broken": {
		Error, "the delay queues cannot be used: {seen}",
		"a consumer with a positive DelayAbove does not start; others hold messages with long delays unacked",
		"stop the consumers with long delays; wait until the queue is empty, because RabbitMQ drops the messages of a " +
			"deleted queue; delete the queue or exchange that differs; declare them again " +
			"(strikes declare --delay-queues QUEUE)",
	},
	"delay-queue-unread": {
		Warning, "the delay queues could not be checked: {seen}",
		"a queue with another TTL or dead-letter exchange returns messages too early, too late or not at all",
		"grant the permission to configure strikes.delay.* (nothing is created or changed with it)",
	},
	"delay-queue-policy": {
		Warning, "a policy sets {key} {value} for {queue}, a delay queue",
		"messages may return too early or to another queue, be lost with the queue, or be refused by it",
		"let no policy match the queues strikes.delay.*",
	},
	CodeUnknown: unreadable,
	CodeDenied:  unreadable,
	"not-seen": {
		Warning, "the management API was not asked",
		"policies, bindings, consumers and the dead-letter queue may be wrong: AMQP does not report them",
		"give the URL of the management API (Check.Management)",
	},
	"management-unreachable": {
		Warning, "the management API does not answer: {reason}",
		"policies and the bindings of the dead-letter exchange were not checked: only the API reports them",
		"correct the URL of the management API (Check.Management), or leave it empty; if nothing listens there, run " +
			"rabbitmq-plugins enable rabbitmq_management on the broker's node",
	},

	// The queue itself
	CodeNodeDown: {
		Error, "the node of the queue {queue} is down, or does not answer",
		"no message can be published to it, delivered from it or acked until the node is back; the node keeps its messages",
		startNode,
	},
	CodeMinority: {
		Error, "the quorum queue {queue} has no majority: {up} of {members} members are up, and it needs {majority}; " +
			"down: {nodes}",
		"no message can be published to it, delivered from it or acked until a majority is up; nothing is lost meanwhile",
		"start the nodes that are down; do not delete the queue, because they hold its messages",
	},
	CodeMemberDown: {
		Warning, "members of the quorum queue {queue} are down on {nodes}: {up} of {members} are up, and it needs {majority}",
		"the queue works, but stops when it loses its majority",
		"start these nodes; replace one that is gone for good with rabbitmq-queues delete_member and add_member",
	},
	"exclusive": {
		Error, "the queue is exclusive to one connection",
		"it is deleted with all its messages when that connection is lost",
		"declare the queue without exclusive",
	},
	"auto-delete": {
		Warning, "the queue is deleted when its last consumer leaves",
		"a crash or restart of the last consumer loses all messages, those to be retried included",
		"declare the queue without auto-delete",
	},
	"auto-delete/held": {
		Error, "the queue is auto-delete, and an exhausted message pauses it (HoldLanes without a Lane)",
		doomedByPause,
		"declare the queue without auto-delete",
	},
	"transient": {
		Warning, "the queue is not durable",
		"a restart of the broker deletes it with all its messages",
		"declare the queue durable, and publish persistent messages",
	},
	"queue-type": {
		Error, "the queue is of type {type}",
		"such a queue cannot requeue a message to its head, or dead-letter a rejected one",
		"use a quorum or a classic queue",
	},
	"message-ttl": {
		Warning, "messages expire after {ms} ms in the queue",
		"a message that waits longer, for others or for its retry, is dead-lettered as expired, or lost, without an attempt",
		"{unset}",
	},
	CodeDropsHead: {
		Warning, "the queue holds at most {length}, and drops from its head",
		"the next message, or the one being retried, is dead-lettered with the reason maxlen, or lost",
		"set x-overflow=reject-publish, or overflow=reject-publish by policy: publishers are refused instead",
	},
	"expires": {
		Warning, "the queue is deleted after {ms} ms without a consumer",
		"all messages are lost, those to be retried included, if consumers are down longer",
		"{unset}",
	},
	"expires/held": {
		Error, "the queue is deleted after {ms} ms without a consumer, and an exhausted message pauses it (HoldLanes " +
			"without a Lane)",
		doomedByPause,
		"{unset}",
	},

	// Where a requeued message goes
	CodeTail: {
		Error, "the quorum queue {limit} on RabbitMQ {version}",
		"before RabbitMQ {until} such a queue puts requeued messages at the tail",
		"{raise}",
	},
	CodeTail + "/version": {
		Error, "the queue is a quorum queue, and the broker does not report its version",
		"some versions put requeued messages at the tail",
		"use a broker that reports its version, or a classic queue",
	},
	CodeDiscard: {
		Error, "the quorum queue {limit} on RabbitMQ {version}",
		"before RabbitMQ {until} such a queue discards a message the first time it is returned",
		"{raise}",
	},
	CodeLimitLow: {
		Error, "{limit}, and allows {allowed}",
		"the broker dead-letters or drops a message before its retries are used up: " +
			"a message that kills its process returns up to {margin} times beyond its retries",
		"{raise}",
	},
	CodeLimitTight: {
		Warning, "{limit}",
		"a lost connection or closed channel counts for every prefetched message: " +
			"the broker dead-letters or drops healthy messages at the limit",
		"{raise}",
	},
	CodeLimitTight + "/old": {
		Warning, "{limit}",
		"every return of a message counts, also if a consumer that only prefetched it stops or dies: " +
			"the broker dead-letters or drops healthy messages at the limit",
		"{raise}",
	},

	// The dead-letter route
	CodeNoDeadLetterExchange: {
		Error, "neither an argument nor a policy of the queue names a dead-letter exchange",
		lostSilently,
		"set a policy with dead-letter-exchange, or declare the queue again with x-dead-letter-exchange; " +
			"or let its consumers accept the loss (Check.AllowDrop)",
	},
	CodeDeadLetterUnproven: {
		Error, "no argument of the queue names a dead-letter exchange; AMQP cannot see whether a policy does",
		"without one, " + lostSilently,
		"if a policy sets it, give the URL of the management API (Check.Management); else set a policy with " +
			"dead-letter-exchange, or declare the queue again with x-dead-letter-exchange; or let its consumers accept the " +
			"loss (Check.AllowDrop)",
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
	CodeDeadLetterNodeDown: {
		Error, "the node of the dead-letter queue {queue} is down, or does not answer",
		lostSilently + "; consumers hold them until the node is back",
		startNode,
	},
	CodeDeadLetterNodeDown + "/some": {
		Warning, "the node of the dead-letter queue {queue} is down, or does not answer",
		"it takes no dead letters; those that no other queue takes are lost silently",
		startNode,
	},
	CodeDeadLetterNodeDown + "/kept": {
		Warning, "the node of the dead-letter queue {queue} is down, or does not answer",
		"dead letters stay where they are until the node is back, and count against the length of their queue",
		startNode,
	},
	"bindings-unknown": {
		Warning, "the bindings of the dead-letter exchange {exchange} cannot be seen over AMQP",
		"with nothing bound to it, " + lostSilently,
		"give the URL of the management API (Check.Management), which shows them",
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
	"dead-letter-queue-stream": {
		Warning, "the dead-letter queue {queue} is a stream",
		"nothing can be replayed or dropped from it, and a lane that a dead letter blocks stays blocked",
		"bind a quorum queue to the dead-letter exchange; the stream may stay",
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

	// Order
	"delayed-retry": {
		Warning, "the delayed retry type is {type}",
		"the broker holds returned messages and delivers others first",
		"{unset}; the consumer waits between attempts",
	},
	CodeNotSingleActive: {
		Error, "x-single-active-consumer is not set",
		"several consumers get messages at the same time, so one overtakes another that is being retried",
		"declare the queue with x-single-active-consumer=true; a policy cannot set it",
	},
	"priorities": {
		Error, "x-max-priority is {n}",
		"messages of a higher priority overtake",
		"declare the queue without x-max-priority",
	},
	"priorities-used": {
		Error, "the queue holds messages of {n} priorities",
		"messages of a higher priority overtake",
		"publish all messages with the same priority, or none",
	},

	// Consumers and messages
	CodeNoConsumer: {
		Warning, "the queue has {messages} ready and no consumer",
		"the messages wait until the queue has a consumer",
		"start a consumer, unless the queue is paused or something else reads it; a consumer's log says why it stopped",
	},
	"auto-ack": {
		Error, "consumers without acknowledgements: {consumers}",
		"a message sent to such a consumer is gone: it is neither retried nor dead-lettered",
		"stop these consumers, or let them consume with autoAck=false and ack after handling",
	},
	"no-prefetch": {
		Warning, "consumers without a prefetch limit: {consumers}",
		"one consumer takes the whole queue; when it dies, all of it counts as returned and as delivered before",
		"set basic.qos, to {prefetch} for example",
	},
	"consumer-priority": {
		Warning, "consumers with x-priority on a single-active-consumer queue: {consumers}",
		"the queue can stop: RabbitMQ 4.3 may make a consumer active again that was replaced and has died since",
		"start all consumers without x-priority; if the queue has stopped, restart the broker node that leads it",
	},
	"consumer-timeout": {
		Warning, "a consumer may hold a message for {timeout}, {prefetch} are prefetched, and each may wait {backoff} for " +
			"its retry",
		"if several of them fail, the broker takes the last ones back and closes the consumer's channel",
		"lower the prefetch or the backoff, or raise the consumer timeout above {want}",
	},
	"not-partitioned": {
		Error, "{queue} is a queue without partitions",
		"consumers with partitions consume nothing of it",
		"consume it without --partitions; or drain and delete it, and declare it with --partitions",
	},
	"partition-missing": {
		Error, "the queue {partition} does not exist",
		"on RabbitMQ 4.3 and later, many routing keys move to other partitions, and their messages lose their order; on " +
			"earlier versions, messages of its keys are returned to their publishers, or lost if they were not published as " +
			"mandatory",
		"stop the publishers, let the consumers empty all partitions, and declare the queue again with the same number of " +
			"partitions; if you want to remove the queue instead, delete its exchanges too",
	},
	"partition-count": {
		Error, "{n} partitions are expected, and the queue has {have}",
		"consumers that expect {n} do not start",
		"give all consumers the number of partitions that the queue was declared with",
	},
	"partition-exchange-missing": {
		Error, "the exchange {exchange} does not exist",
		"no message reaches the partitions, or the queue has another number of them",
		"declare the queue again, with the same number of partitions: strikes declare --partitions {n} {queue}",
	},
	"partition-bindings": {
		Error, "bindings from exchange {exchange} to {to}: {n}, want {want}",
		"routing keys change their partition, so that messages of one key overtake each other, or are returned",
		"remove the bindings that are too many, and declare the queue again with the same number of partitions",
	},
	"partition-idle": {
		Error, "no active consumer on {partitions}, while other partitions are consumed",
		"messages of their routing keys wait",
		"give all processes the same --partitions; if processes wait on a partition and none is active, restart the " +
			"broker node that leads it",
	},
	"partition-processes": {
		Warning, "{processes} processes share {n} partitions",
		"{idle} of them wait without work",
		"run fewer processes, or give the queue more partitions",
	},
	"partition-shares": {
		Warning, "one process has {most} partitions and another {least}, by a deal that no process has read for {age}",
		"some processes do more work than others, or wait",
		"read the logs of the processes, which do not reach the store or reach another one, and repair that",
	},
	"transient-messages": {
		Warning, "messages that are not persistent: {n} of {of} bytes",
		"a restart of the broker loses them, and their dead letters",
		"publish with delivery mode 2 (persistent)",
	},

	"limits-differ": {
		Warning, "consumers of one queue have different limits: {limits}",
		"how many attempts a message gets depends on which consumer takes its last step",
		"give all consumers the same MaxRetries, which is the limit - 1; or set one for all of them: strikes limit set " +
			"{queue} --max-retries N --why TEXT",
	},
	"no-breaker": {
		Warning, "{n} messages were dead-lettered for one reason within {within}, the last at {at}: {why}; consumers " +
			"without a breaker: {without} of {of}, such as {name}",
		"when a system that handlers need is away, all messages of that time are dead-lettered",
		"if that was an outage, turn on the breaker of all consumers (Breaker: 8, or --breaker 8). Find the KEY of that " +
			"reason: strikes dead list --groups {queue}. Then publish its dead letters again: strikes dead replay --group " +
			"KEY {queue}",
	},
	"no-progress": {
		Warning, "no message has succeeded since {since}: {n} failed{why}",
		"the breaker stops: only probes begin, failures are not counted, and the messages wait",
		"repair the system that handlers need: the first success lets all go on; if the messages are at fault, run " +
			"strikes resume {queue} --count 10m",
	},
	"paused": {
		Warning, "the queue has been paused since {at}{by}: {why}",
		"its consumers take no deliveries; the messages wait in the queue",
		"if the reason is gone, run strikes resume {queue}",
	},
	"paused/message": {
		Warning, "the queue has been paused since {at}{by}: {why}",
		"its consumers take no deliveries; the messages wait in the queue",
		"decide about message {id}, because a resume alone does not end this pause: strikes status {queue} names the " +
			"commands",
	},
	// The store
	CodeNoStore: {
		Error, "{reason}",
		notCounted,
		"bring the store back, or give its address with --store-url",
	},
	CodeStoreDenied: {
		Error, "{reason}",
		notCounted,
		"run the command that the reason names, or give the user and password that the store knows, with --store-url or " +
			"REDIS_URL",
	},
	CodeNoDatabase: {
		Error, "{reason}",
		notCounted,
		"do what the reason says: make the database or its tables, or correct the name or number at the end of the " +
			"store's URL",
	},
	CodeNotStore: {
		Error, "{reason}",
		notCounted,
		"give the address of the store with --store-url",
	},

	// Probes
	"probe-refused": {
		Warning, "{what}: {reason}",
		"it was not proven",
		"remove the reason, then probe again",
	},
	"probe-tail": {
		Error, "a requeued message was redelivered after all others, on a scratch queue with the same arguments",
		"a failed message is retried after all waiting ones, and order is lost",
		"declare the queue again as a quorum queue with x-delivery-limit={limit} (strikes declare), or as a classic queue",
	},
	"probe-discards": {
		Error, "a requeued message was not redelivered, on a scratch queue with the same arguments",
		"a message is dead-lettered or dropped at its first failed attempt",
		"declare the queue again as a quorum queue with x-delivery-limit={limit} (strikes declare), or as a classic queue",
	},
	"probe-lost": {
		Error, "a rejected scratch message did not reach the queues {queues} through the dead-letter exchange {exchange} " +
			"within {wait}",
		lostSilently,
		"check the bindings of the exchange, the limits of the queues, and whether they are up",
	},
}
