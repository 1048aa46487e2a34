package main

// What the words mean that commands print, for their help. README.md has them too.
const (
	decisionMeanings = "It says what it did with a message, and why: ack; retry (a failure is counted, the next attempt follows the wait);\n" +
		"requeue (it is back in its place); dead-letter; isolate (it may have killed a process, and will run alone); hold (the\n" +
		"store does not answer, or the dead-letter route is broken: it waits); leave (it returns to the queue with its session); undecodable (a message\n" +
		"that cannot be decoded ended the session; the next sessions prefetch one until it is gone). failed: CMD did;\n" +
		"rejected: exit code 65; timed-out: --handler-timeout was over; panicked: a handler in Go did; crashed: its process died\n" +
		"while it ran isolated; no-id: it cannot be counted."

	stateMeanings = "States: retrying (it has failed, or was stopped, and will run again), running, dead-lettered, and done (handled; kept\n" +
		"for ten minutes). Failures are counted of attempts that failed, crashes of those that killed their process."

	kindMeanings = "Kinds: failed (the last attempt did, or rejected the message), panicked (a handler in Go), timed-out (it passed its\n" +
		"deadline), crashed (it killed its process), rejected (by a consumer of which there is no record), and by the broker\n" +
		"itself: delivery-limit (too many returns), expired, overflow (the queue was full); unknown (it does not say)."

	nameMeanings = "An ID may be a fingerprint, fp:…: list shows it for messages without an id, and show for all. It is made from the\n" +
		"message's content, so messages without an id that have equal content share one.\n"

	blockMeanings = "With --json each has a state: running; running alone (in its process); left running (but nobody consumes);\n" +
		"waiting (for its next try); ready (for the next consumer); forgotten (nobody took it for 5 minutes)."
)
