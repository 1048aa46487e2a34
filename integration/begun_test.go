package integration

import (
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/counter/rules"
	"github.com/strikesmq/strikes/internal/proxy"
)

// TestKillsBeforeTheHandlerAreNotCounted ends five processes with SIGKILL from outside, between START isolated and the
// handler of one healthy message: before the reply to START, and before the store has BEGUN. None is counted as a
// crash.
func TestKillsBeforeTheHandlerAreNotCounted(t *testing.T) {
	t.Parallel()
	const width = 3 + 5 + 1 + 6 // the words of a BEGUN, which has the common arguments alone
	isEval := func(words []string) bool { return strings.HasPrefix(strings.ToLower(words[0]), "eval") }
	for name, treat := range map[string]func(words []string) proxy.Treatment{
		"before the reply to START": func(words []string) proxy.Treatment {
			if isEval(words) && slices.Contains(words, "isolated") {
				return proxy.Treatment{Lose: proxy.Reply}
			}
			return proxy.Treatment{}
		},
		"before BEGUN": func(words []string) proxy.Treatment {
			if isEval(words) && len(words) == width {
				return proxy.Treatment{Lose: proxy.Request}
			}
			return proxy.Treatment{}
		},
	} {
		t.Run(name, func(t *testing.T) {
			eachType(t, func(t *testing.T, queue string) {
				spec, c := newChild(t, queue)
				direct := spec
				u, err := url.Parse(spec.Store)
				need(t, err)
				p, err := proxy.NewStore(t.Context(), u.Host, treat)
				need(t, err)
				t.Cleanup(p.Close)
				u.Host = p.Addr()
				spec.Store, spec.Slow = u.String(), []string{"m0"}
				publish(t, queue, "m", 1)
				kill := func(when string, is func() bool) {
					t.Helper()
					one := spec.spawn(t)
					eventually(t, when, is)
					one.crash()
				}
				ran := func() int { byID, _ := spec.runs(t); return byID["m0"] }
				for n := 1; n <= 2; n++ { // a first delivery, and beside others: the message becomes a suspect
					kill("the handler of m0", func() bool { return ran() == n })
				}
				starts := int64(1)
				for range 5 {
					starts++
					kill("START isolated of m0", func() bool {
						records, err := c.Admin().Get(t.Context(), "/", queue, "m0")
						return err == nil && len(records) == 1 && records[0].Starts >= starts && records[0].OpenMode != rules.ModeShared
					})
					starts = one(t, c, queue, "m0").Starts
				}
				if r := one(t, c, queue, "m0"); r.Counted() != 0 || r.State != counter.StateLive || !r.Suspect {
					t.Errorf("after five kills: %+v", r)
				}
				last := direct.spawn(t)
				eventually(t, "m0 handled", func() bool { return ran() == 3 && queueDepth(t, queue) == 0 })
				terminate(t, last)
				if n := queueDepth(t, queue+".dlq"); n != 0 {
					t.Errorf("%d dead letters", n)
				}
				if r := one(t, c, queue, "m0"); r.State != counter.StateDone || r.Counted() != 0 {
					t.Errorf("in the end: %+v", r)
				}
			})
		})
	}
}
