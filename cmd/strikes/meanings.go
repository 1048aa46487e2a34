package main

// What the words mean that commands print, for their help. docs/cli.md has them too.
const (
	decisionMeanings = "It says what it did with a message, and why: ack; retry (a failure is counted, the next attempt follows the wait);\n" +
		"requeue (it returned to its position); dead-letter; isolate (it may have killed a process, and will run isolated); hold\n" +
		"(the store does not reply, or the dead-letter route is broken, so the delivery waits); leave (it returns to the queue\n" +
		"with its session); undecodable (a message that cannot be decoded ended the session, so the next sessions prefetch one\n" +
		"message until it is gone). Why: failed; rejected (exit code 65); timed-out (it exceeded --handler-timeout); panicked (a\n" +
		"handler in Go); crashed (its process died while it ran isolated); no-id (it cannot be counted)."

	stateMeanings = "States: retrying (it failed, or was stopped, and gets another attempt), running, dead-lettered, and done (handled; kept\n" +
		"for ten minutes). A failure is an attempt that failed. A crash is an attempt that killed its process."

	kindMeanings = "Kinds: failed (the last attempt failed, or rejected the message), panicked (a handler in Go), timed-out (the attempt\n" +
		"passed its deadline), crashed (it killed its process), rejected (by a consumer without a record). The broker dead-letters\n" +
		"by itself: delivery-limit (too many returns), expired, overflow (the queue was full). unknown: the message does not say."

	nameMeanings = "An ID may be a fingerprint, fp:…: list shows it for messages without an id, and show for all. It is made from the\n" +
		"message's content, so messages without an id that have equal content share one.\n\n"

	blockMeanings = "With --json each has a state: running; running isolated (no other handler runs in its process); left running (but the\n" +
		"queue has no consumer); waiting (for its next attempt); ready (for the next consumer); forgotten (no consumer took it for\n" +
		"5 minutes)."
)
