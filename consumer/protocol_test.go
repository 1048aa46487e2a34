package consumer

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/strikesmq/strikes/consumer/internal/control"
	"github.com/strikesmq/strikes/internal/servertest"
)

// TestProtocolValues compares the values of the consumer in docs/protocol.md with those of the code.
func TestProtocolValues(t *testing.T) {
	ms := func(d time.Duration) string { return fmt.Sprint(d.Milliseconds(), " ms") }
	want := map[string]string{
		"retries":                                    fmt.Sprint(DefaultMaxRetries),
		"first backoff":                              ms(backoffFirst),
		"longest backoff":                            ms(backoffMost),
		"one step waits for its reply":               ms(stepTimeout),
		"under the isolation lock":                   ms(lockedTimeout),
		"the isolation lock is held without a reply": ms(lockedPatience),
		"first repetition after":                     ms(undrawn(t, 1)),
		"longest pause between repetitions":          ms(undrawn(t, 1000)),
		"late steps are repeated for":                ms(lateFor),
		"late steps at a time":                       fmt.Sprint(lateMost),
		"handler timeout":                            ms(DefaultHandlerTimeout),
		"abandoned after the deadline":               ms(abandonAfter),
		"consumer timeout":                           ms(DefaultConsumerTimeout),
		"drain at a stop":                            ms(DefaultDrainTimeout),
		"control is read every":                      ms(control.Every),
		"control waits for its reply":                ms(control.Timeout),
		"dead letters are held after a reconnect":    ms(electing),
		"and after a failed attempt to consume":      ms(starting),
		"acks that a plain close keeps":              fmt.Sprint(pendingAcks),
		"careful after an undecodable message for":   ms(careFor),
		"margin of the TTL":                          ms(ttlMargin),
	}
	if diff := cmp.Diff(want, servertest.Documented(t, "Values of the consumer.")); diff != "" {
		t.Error(diff)
	}
}

// undrawn is the longest pause before a step is sent for the nth time.
func undrawn(t *testing.T, n int) time.Duration {
	t.Helper()
	before := draw
	defer func() { draw = before }()
	draw = func(time.Duration) time.Duration { return 0 }
	return storeBackoff(n)
}
