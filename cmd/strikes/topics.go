package main

import (
	"github.com/spf13/cobra"

	"github.com/strikesmq/strikes/cmd/strikes/internal/connect"
)

// topics are texts of the help that several commands share. docs/cli.md has them too.
func topics() []*cobra.Command {
	servers := &cobra.Command{Use: "servers", Short: "the flags that name the broker and the store", Long: aboutServers}
	var f connect.Flags
	f.AddRecords(servers)
	f.AddManagement(servers)
	return []*cobra.Command{
		servers,
		{Use: "dead-letters", Short: "where dead letters are, how they are named, and why they died",
			Long: aboutDeadLetters},
		{Use: "words", Short: "the words that consume, counter, dead and status print", Long: aboutWords},
	}
}

const aboutServers = `The command line comes before the environment, and the environment before the
default. A password is safer in the environment, because every user of the
machine can read a command line. docs/cli.md lists the parameters of each URL.`

const aboutDeadLetters = `Where they are. Without --dead-letter-queue a command finds the queue in which
the dead letters land, by QUEUE's arguments, policies and bindings. The
management API shows these. If it does not, the command assumes QUEUE.dlq, and
stderr says so. If dead letters land in several queues, the error names them.

If several queues share a dead-letter queue, an ID or a filter picks the dead
letters of QUEUE, and those that do not say where they died. --origin names
another queue. --all, and list --read without these, mean the whole of it.

How they are named. An ID may be a fingerprint, fp:…: list --read shows it for
messages without an id, and show --read for all. It is made from the message's
content, so messages without an id that have equal content share one. Put an ID
that begins with - after --. IDs that are not found are named at the end, and
the exit code is 3.

What reading costs. A quorum queue counts reads, and deletes a message that was
read too often. So a queue whose delivery limit is low or unknown is not read.
--force reads it anyway, unless the limit is known to be low. dead list reads
the queue only with --read, and dead show with --read, --body or --json.

Why they died: KIND in the lists.
  failed          the last attempt failed
  rejected        the last attempt rejected the message
  panicked        a handler in Go panicked
  timed-out       the attempt passed its deadline
  crashed         it killed its process
  skipped         by an operator
  too-old         it failed for longer than its maximal age
  no-record       rejected by a consumer, and the store has no record of it
  delivery-limit  by the broker: it returned to the queue too often
  expired         by the broker: its time to live was over
  overflow        by the broker: the queue was full
  unknown         the message does not say`

const aboutWords = `Decisions of consume, each with its cause:
  ack          the message is handled
  retry        a failure is counted, the next attempt follows the wait
  requeue      the message returned to its original position
  dead-letter  it goes to the dead-letter queue
  isolate      it may have killed a process, and will run isolated
  hold         it waits until the store replies, the dead-letter route is
               repaired, or some message succeeds; or it is exhausted, and
               its queue is paused until you decide (--hold-lanes)
  not-counted  CMD or URL could not work, or no message succeeds; the next
               attempt follows the wait
  crash        the process behind URL died, which is not counted; the next
               attempt is isolated, and there such an end is a counted failure
  leave        the message returns to the queue with its session
  move         a copy of the message waits in a delay queue for its retry
  superseded   such a copy takes the place of the message
  undecodable  a message that cannot be decoded ended the session; the next
               sessions prefetch one message until it is gone

Causes:
  failed       CMD failed
  rejected     CMD exited with 65
  timed-out    --handler-timeout was over
  panicked     a handler in Go panicked
  crashed      its process died while it ran isolated
  skipped      by an operator
  too-old      it failed for longer than --max-age
  blocked      an earlier message blocks its lane
  no-id        a message without an id cannot be counted

--breaker of consume, and the breaker in status QUEUE:
  doubt    N messages failed, none succeeded: nothing is counted
  breaker  open after two seconds of doubt: no attempt begins but probes, until
           a message succeeds or an operator resumes the queue
  probe    one of three attempts that are permitted every three seconds

STATE in counter list. CRASHES counts attempts in which the consumer's process
died. FAILURES counts all others, also those that killed an endpoint.
  retrying       it failed, or was stopped, and gets another attempt; or it
                 blocks its queue until an operator decides
  running        an attempt runs
  reset          an operator reset it; no attempt has been counted since
  skipped        it is dead-lettered at its next step
  dead-lettered  it got all its attempts, or was rejected or skipped
  done           handled; kept for ten minutes

KIND in dead list: strikes help dead-letters.`
