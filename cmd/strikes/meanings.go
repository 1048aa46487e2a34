package main

// What the words mean that commands print, for their help. docs/cli.md has them too.
const (
	decisionMeanings = "Each decision about a message is reported with its cause. Decisions: ack; retry (a failure is " +
		"counted, the next attempt\n" +
		"follows the wait); requeue (the message returned to its original position); dead-letter; isolate (the message " +
		"may have\n" +
		"killed a process, and will run isolated); hold (the message waits until the store answers or the dead-letter " +
		"route is\n" +
		"repaired); not-counted (CMD or URL could not work; the next attempt follows the wait); crash (the process " +
		"behind URL\n" +
		"died; if the attempt was isolated, it is counted); leave (the message returns to the queue with its session);\n" +
		"move (a copy of the message waits elsewhere for its retry); superseded (such a copy takes the place of the message);\n" +
		"undecodable (a message that cannot be decoded ended the session; the next sessions prefetch one until it is " +
		"gone).\n" +
		"Causes: failed (CMD failed); rejected (exit code 65); timed-out (--handler-timeout was over); panicked (a " +
		"handler in Go\n" +
		"panicked); crashed (its process died while it ran isolated); skipped (by an operator); too-old (it failed for " +
		"longer than\n" +
		"--max-age); blocked (an earlier message blocks its lane); no-id (a message without an id cannot be counted)."

	stateMeanings = "States: retrying (it failed, or was stopped, and gets another attempt), running, skipped (it is " +
		"dead-lettered at its\n" +
		"next step), dead-lettered, and done (handled; kept for ten minutes). A failure is an attempt that failed. A crash " +
		"is an attempt that killed its process."

	kindMeanings = "Kinds: failed (the last attempt failed), rejected (the last attempt rejected the message), panicked " +
		"(a handler in Go),\n" +
		"timed-out (the attempt passed its deadline), crashed (it killed its process), skipped (by an operator), too-old " +
		"(it failed for\n" +
		"longer than its maximal age), no-record (rejected by a consumer, and the store has no record of it).\n" +
		"The broker dead-letters by itself: delivery-limit (too many returns), expired, overflow (the queue was full). " +
		"unknown: the message does not say."

	nameMeanings = "An ID may be a fingerprint, fp:…: list shows it for messages without an id, and show for all. It " +
		"is made from the\n" +
		"message's content, so messages without an id that have equal content share one.\n"

	blockMeanings = "With --json each has a state: running; running isolated (no other handler runs in its process); " +
		"left running (but the\n" +
		"queue has no consumer); waiting (for its next attempt); ready (for the next consumer); forgotten (no consumer " +
		"took it for\n" +
		"5 minutes)."

	troubleMeanings = "With --json each queue has the worst of its troubles: route (its dead letters reach no queue: " +
		"they are lost, or consumers hold\n" +
		"them), blocked (a message has blocked for over a minute, or cannot be decoded), unaccounted (dead letters are " +
		"missing),\n" +
		"unsafe (the doctor finds another error), stopped (messages wait: the queue is paused, or has no consumer), lanes " +
		"(lanes are blocked), retrying,\n" +
		"dead."
)
