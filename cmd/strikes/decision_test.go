package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
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

// TestLinesOfAnOutage: of the decisions that come by the hundred, one a second is shown, with the number of the others.
func TestLinesOfAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got strings.Builder
		l := lines{to: &got}
		for n := range 250 {
			l.Observe(t.Context(), consumer.Event{Outcome: consumer.OutcomeNotCounted, ID: fmt.Sprint("m", n),
				Err: errors.New("refused")})
			time.Sleep(10 * time.Millisecond)
		}
		want := "not-counted m0: refused\nnot-counted m100: refused; 99 others meanwhile\n" +
			"not-counted m200: refused; 99 others meanwhile\n"
		if got.String() != want {
			t.Errorf("got %s, want %s", got.String(), want)
		}
	})
}

// TestLinesOfASuspect: of all its isolated attempts one line says so, unless every decision is asked for.
func TestLinesOfASuspect(t *testing.T) {
	for _, all := range []bool{false, true} {
		var got strings.Builder
		l := lines{to: &got, all: all}
		for _, id := range []string{"a", "b", "a", "a", "b"} {
			l.Observe(t.Context(), consumer.Event{Outcome: consumer.OutcomeIsolate, ID: id})
		}
		want := map[bool]string{false: "isolate a\nisolate b\n",
			true: "isolate a\nisolate b\nisolate a\nisolate a\nisolate b\n"}
		if got.String() != want[all] {
			t.Errorf("all %v: got %s, want %s", all, got.String(), want[all])
		}
	}
}
