package console

import (
	"fmt"
	"os"
	"strings"
	"sync"

	"github.com/chromedp/chromedp"

	"github.com/strikesmq/strikes/internal/servertest"
)

// axe is axe-core, which make browser installs here.
var axe = sync.OnceValues(func() (string, error) {
	script, err := os.ReadFile("node_modules/axe-core/axe.min.js")
	return string(script), err
})

// violation is a broken rule in the report of axe-core, with the fields that the tests print.
type violation struct {
	ID, Impact, Help string
	Nodes            []struct{ HTML, FailureSummary string }
}

func (v violation) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s (%s): %s", v.ID, v.Impact, v.Help)
	for _, n := range v.Nodes[:min(3, len(v.Nodes))] {
		fmt.Fprintf(&b, "\n\t%.300s\n\t%s", n.HTML, strings.ReplaceAll(n.FailureSummary, "\n", "\n\t"))
	}
	return b.String()
}

// violations are the rules of axe-core that the page breaks.
func (b *tab) violations() []violation {
	b.t.Helper()
	script, err := axe()
	servertest.Need(b.t, err)
	run(b, chromedp.Evaluate[chromedp.Void](script))
	return run(b, chromedp.Evaluate[[]violation]("axe.run({resultTypes: ['violations']}).then(r => r.violations)",
		chromedp.EvalAwaitPromise))
}
