package consumer

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/strikesmq/strikes/consumer/internal/control"
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
	if diff := cmp.Diff(want, documented(t, "Values of the consumer.")); diff != "" {
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

// documented returns the table of docs/protocol.md that follows this text: values by their names, without the
// explanations.
func documented(t *testing.T, heading string) map[string]string {
	t.Helper()
	text, err := os.ReadFile("../docs/protocol.md")
	need(t, err)
	_, section, found := strings.Cut(string(text), "\n"+heading)
	_, rows, ok := strings.Cut(section, "\n|---|---|\n")
	if !found || !ok {
		t.Fatalf("no table follows %q", heading)
	}
	rows, _, _ = strings.Cut(rows+"\n", "\n\n")
	explained := regexp.MustCompile(`( \(| each$| at most$| at least$|,).*`)
	values := map[string]string{}
	for line := range strings.Lines(strings.TrimSpace(rows)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 2 {
			t.Fatalf("%q is no row", line)
		}
		values[strings.TrimSpace(cells[0])] = explained.ReplaceAllString(strings.TrimSpace(cells[1]), "")
	}
	return values
}
