package counter

import (
	"fmt"
	"math"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/strikesmq/strikes/counter/rules"
	"github.com/strikesmq/strikes/internal/servertest"
)

// TestProtocolValues compares the values of the store in docs/protocol.md with those of the code.
func TestProtocolValues(t *testing.T) {
	ms := func(d time.Duration) string { return fmt.Sprint(d.Milliseconds(), " ms") }
	lua := func(file, name string) string {
		text, err := os.ReadFile("scripts/" + file + ".lua")
		need(t, err)
		m := regexp.MustCompile(`(?m)^local ` + name + ` = (\d+)`).FindSubmatch(text)
		if m == nil {
			t.Fatalf("%s.lua has no %s", file, name)
		}
		return string(m[1])
	}
	token := 0
	for validToken(strings.Repeat("a", token+1)) {
		token++
	}
	least := time.Minute
	if (Options{TTL: least}).validate() != nil || (Options{TTL: least - 1}).validate() == nil {
		t.Errorf("the least TTL is not %v", least)
	}
	want := map[string]string{
		"prefix":                                   "`" + DefaultPrefix + "`",
		"TTL of a record":                          ms(DefaultTTL),
		"least TTL":                                ms(least),
		"keep after a success":                     ms(rules.KeepDone),
		"tombstone in force":                       lua("record", "BINDS") + " ms",
		"bytes of a token":                         fmt.Sprint(token),
		"bytes of id, generation, consumer, by":    fmt.Sprint(rules.MaxStoredID),
		"bytes of reason, why":                     fmt.Sprint(MaxReason),
		"bytes of a lane's name":                   fmt.Sprint(maxLane),
		"largest limit":                            lua("record", "MOST"),
		"largest override, in retries":             fmt.Sprint(MaxOverride),
		"largest fence":                            fmt.Sprint(int64(rules.MaxFence)),
		"largest wait":                             ms(math.MaxInt64),
		"uncounted tokens kept":                    lua("record", "ENDED"),
		"bytes of tokens kept":                     lua("record", "TOKENS"),
		"attempts in the history":                  lua("record", "NOTED"),
		"lease of a move":                          lua("record", "LEASE") + " ms",
		"an open attempt is asked for again after": lua("record", "POLL") + " ms",
		"largest copy number":                      lua("record", "COPIES"),
		"steps in one call":                        fmt.Sprint(maxBatch),
		"TTL of a pause":                           ms(rules.PauseTTL),
		"a skip is announced for":                  ms(skipAnnounced),
		"a silent consumer is listed for":          lua("control", "FORGOTTEN") + " ms",
		"skips in one reply":                       lua("control", "SKIPS"),
		"doubt before a breaker opens":             ms(rules.DoubtLasts),
		"attempts of a permit":                     fmt.Sprint(rules.Probes),
		"a last attempt waits for a success":       ms(rules.SuccessAwaits),
		"most failing messages of a breaker":       fmt.Sprint(rules.MaxBreaker),
		"permits after an opening, the first":      ms(rules.FirstPermit),
		"permits after an opening, the second":     ms(rules.SecondPermit),
		"permits after an opening, the next":       ms(rules.LaterPermits),
	}
	if diff := cmp.Diff(want, servertest.Documented(t, "Values of the store.")); diff != "" {
		t.Error(diff)
	}
	if rules.MoveLease.Milliseconds() != number(lua("record", "LEASE")) ||
		rules.MovePoll.Milliseconds() != number(lua("record", "POLL")) ||
		rules.MaxCopyNumber != number(lua("record", "COPIES")) {
		t.Error("a move in the package and in record.lua differ")
	}
	if rules.TombstoneBinds.Milliseconds() != number(lua("record", "BINDS")) ||
		rules.MaxLimit != number(lua("record", "MOST")) {
		t.Error("the package and record.lua differ")
	}
}
