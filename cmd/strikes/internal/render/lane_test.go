package render

import (
	"strings"
	"testing"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/ops"
)

// TestLaneNames: a name that is no UTF-8 is whole in JSON.
func TestLaneNames(t *testing.T) {
	for lane, want := range map[string]string{"café": `"lane":"café"`, "a\xff": `"lane_base64":"Yf8="`} {
		var out strings.Builder
		list := Lanes(&out, true)
		if err := list.Row(ops.BlockedLane{BlockedLane: counter.BlockedLane{Lane: lane}}); err != nil {
			t.Fatal(err)
		}
		need(t, list.Flush())
		if !strings.Contains(out.String(), want) || strings.Contains(out.String(), "base64") != strings.Contains(want,
			"base64") {
			t.Errorf("%q: %s", lane, &out)
		}
	}
}
