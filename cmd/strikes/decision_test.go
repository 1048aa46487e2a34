package main

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/counter"
)

var decisionEvents = []struct {
	event consumer.Event
	text  string
	all   bool // said only to those who want all
}{
	{consumer.Event{Outcome: consumer.OutcomeAck, ID: "a", Attempt: 1}, "ack a", true},
	{consumer.Event{Outcome: consumer.OutcomeAck, ID: "a", Attempt: 3, Limit: 4}, "ack a, attempt 3 of 4", true},
	{consumer.Event{Outcome: consumer.OutcomeRequeue, ID: "a"}, "requeue a", true},
	{consumer.Event{Outcome: consumer.OutcomeRetry, ID: "two words", Attempt: 1, Limit: 4, Cause: counter.CauseFailed,
		Wait: 120 * time.Millisecond,
		Err:  errors.New("exit status 1: \x1b[31mno\nmore")},
		`retry "two words", attempt 1 of 4 failed, the next in 120ms: exit status 1: \x1b[31mno…`, false},
	{consumer.Event{Outcome: consumer.OutcomeDeadLetter, ID: "a\n", Attempt: 4, Limit: 4, Cause: counter.CauseTimedOut,
		Err: errors.New("late")},
		`dead-letter "a\n", attempt 4 of 4 timed-out: late`, false},
	{consumer.Event{Outcome: consumer.OutcomeIsolate, ID: "a"}, "isolate a", false},
	{consumer.Event{Outcome: consumer.OutcomeHold, Queue: "q", ID: "a", Err: errors.New("counter: start: store away")},
		"hold a: counter: start: store away; strikes doctor q says what to do", false},
	{consumer.Event{Outcome: consumer.OutcomeNotCounted, ID: "a", Attempt: 1, Limit: 4, Wait: time.Second,
		Err: errors.New("503")}, "not-counted a, attempt 1 of 4, the next in 1s: 503", false},
	{consumer.Event{Outcome: consumer.OutcomeCrash, ID: "a", Attempt: 1, Limit: 4, Wait: time.Second,
		Err: errors.New("reset")}, "crash a, attempt 1 of 4, not counted, the next in 1s: reset", false},
	{consumer.Event{Outcome: consumer.OutcomeUndecodable, Queue: "q", Err: errors.New("consumer: a message cannot be " +
		"decoded: take it out")}, "undecodable: consumer: a message cannot be decoded: take it out", false},
	{consumer.Event{Outcome: consumer.OutcomeLeave, ID: "a"}, "leave a", true},
	{consumer.Event{Outcome: consumer.OutcomeLeave, ID: "a", Err: errors.New("channel closed")}, "leave a: channel closed",
		false},
	{consumer.Event{Outcome: consumer.OutcomeDeadLetter, Cause: counter.CauseNoID, Err: errors.New("x")},
		`dead-letter "" no-id: x`, false},
}

func TestLines(t *testing.T) {
	for _, verbose := range []bool{false, true} {
		var got strings.Builder
		var want []string
		l := lines{to: &got, all: verbose}
		for _, e := range decisionEvents {
			l.Observe(context.Background(), e.event)
			if verbose || !e.all {
				want = append(want, e.text)
			}
		}
		if diff := cmp.Diff(strings.Join(want, "\n")+"\n", got.String()); diff != "" {
			t.Errorf("verbose %v (-want +got):\n%s", verbose, diff)
		}
	}
}

func TestLinesJSON(t *testing.T) {
	var got strings.Builder
	l := lines{to: &got, all: true, json: true}
	l.Observe(context.Background(), consumer.Event{Outcome: consumer.OutcomeRetry, Queue: "q", ID: "a\x1b\u009b",
		Attempt: 1, Limit: 4, Failures: 1,
		Redelivered: true, Ran: time.Second, Wait: 2 * time.Second, Cause: counter.CauseFailed, Err: errors.New("x\ty")})
	_, rest, _ := strings.Cut(got.String(), `",`)
	want := `"decision":"retry","queue":"q","id":"a\u001b\u009b","attempt":1,"of":4,"failures":1,"redelivered":true,` +
		`"ran_ms":1000,"wait_ms":2000,"cause":"failed","error":"x\ty"}` + "\n"
	if diff := cmp.Diff(want, rest); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
