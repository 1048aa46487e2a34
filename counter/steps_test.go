package counter

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/strikesmq/strikes/counter/rules"
)

const testLimit = 3

func attempt(m Message, token string) Attempt {
	return Attempt{Message: m, Token: token, Consumer: "test"}
}

func show(a Reply, err error) string {
	if err != nil {
		return "error: " + err.Error()
	}
	return fmt.Sprintf("%v %d+%d fence %d", a.Code, a.Failures, a.Crashes, a.Fence)
}

// inOneDay is a fence that the clock reaches a day from now.
var inOneDay = time.Now().Add(24 * time.Hour).UnixMicro()

var (
	again  = Failure{Limit: testLimit, Reason: "boom"}
	reject = Failure{Cause: CauseRejected, Limit: 0, Reason: "poison"}
)

// TestSteps takes the steps of scenarios that spec/v1/steps.json does not have, and that no rule of it implies.
func TestSteps(t *testing.T) {
	for _, s := range stores(t) {
		m, ctx := Message{}, t.Context()
		// want compares a reply without its fence, and with the cause of a message that holds its queue.
		want := func(want string) func(Reply, error) {
			return func(r Reply, err error) {
				t.Helper()
				got, _, _ := strings.Cut(show(r, err), " fence ")
				if r.Code == rules.ReplyHeld {
					got += " " + string(r.Cause)
				}
				if got != want {
					t.Errorf("%s: %s: got %s, want %s", s.name, m.ID, got, want)
				}
			}
		}

		m = message("a lower limit does not exhaust what was handled, only what kills after that")
		for i, token := range []string{"a", "b", "c"} {
			want(fmt.Sprintf("REQUEUE %d+0", i+1))(s.Fail(ctx, attempt(m, token), Failure{Limit: 9}))
		}
		needOf(t, s.name, s.End(ctx, attempt(m, "d"), true))
		want("RUN 3+0")(s.Start(ctx, attempt(m, "e"), rules.ModeShared, testLimit))
		want("SUSPECT 3+0")(s.Start(ctx, attempt(m, "f"), rules.ModeShared, testLimit))
		want("RUN 3+0")(s.Start(ctx, attempt(m, "f"), rules.ModeIsolated, testLimit))
		want("BEGUN 3+0")(s.Begun(ctx, attempt(m, "f")))
		want("EXHAUSTED 3+1")(s.Start(ctx, attempt(m, "g"), rules.ModeIsolated, testLimit))

		m = message("a first delivery on a tombstone is a new use of the id")
		first := attempt(m, "b")
		first.First = true
		want("EXHAUSTED 1+0")(s.Fail(ctx, attempt(m, "a"), reject))
		want("REQUEUE 1+0")(s.Fail(ctx, first, again))
		want("EXHAUSTED 1+0")(s.Fail(ctx, attempt(m, "a"), reject))

		m = message("a message holds its queue until a consumer that holds none dead-letters it")
		holding := attempt(m, "a")
		holding.HoldsQueue = true
		for range 2 {
			want("HELD 1+0 failed")(s.Fail(ctx, holding, Failure{Limit: testLimit, AtMost: 1}))
		}
		holding.Token = "b"
		want("HELD 2+0 rejected")(s.Fail(ctx, holding, reject))
		want("EXHAUSTED 2+0")(s.Start(ctx, attempt(m, "c"), rules.ModeShared, testLimit))
	}
}
