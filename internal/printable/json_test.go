package printable

import (
	"bytes"
	"encoding/json"
	"runtime"
	"strings"
	"testing"
)

// TestJSON: shallow texts look as json.Indent writes them.
func TestJSON(t *testing.T) {
	for _, text := range []string{
		`{"order":17,"note":"\u001b[2J \"quoted\\\" ]}","empty":{},"none":[ ],` +
			`"list":[1,-2.5e3,true,false,null,[[]],{"a":""}]}`,
		"  [1 ,\n\t2]", `"text"`, `17`, `{}`, `[]`, `[[],[{}]]`, `{"größe":"ß"}`, strings.Repeat("[", deepestIndent) +
			strings.Repeat("]", deepestIndent),
	} {
		var want bytes.Buffer
		if err := json.Indent(&want, []byte(strings.TrimSpace(text)), "", "  "); err != nil {
			t.Fatal(err)
		}
		if got, ok := JSON([]byte(text), 1<<20); !ok || got != want.String() {
			t.Errorf("%s:\n%s\nwant\n%s", text, got, &want)
		}
	}
	for _, text := range []string{"", "{", `{"a":}`, "plain", `{"a":1} x`} {
		if _, ok := JSON([]byte(text), 1<<20); ok {
			t.Errorf("%q is taken for JSON", text)
		}
	}
}

// TestDeepJSON: nested arrays cost about as much as is shown of them.
func TestDeepJSON(t *testing.T) {
	const depth, shown = 9000, 64 << 10
	deep := strings.Repeat(strings.Repeat("[", depth)+strings.Repeat("]", depth)+",", 8) + "1]"
	for _, text := range []string{"[" + deep, `["` + strings.Repeat("]", depth) + `\"",` + deep} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		got, ok := JSON([]byte(text), shown)
		runtime.ReadMemStats(&after)
		if !ok || len(got) > shown+1<<10 {
			t.Errorf("%v, %d bytes", ok, len(got))
		}
		if took := after.TotalAlloc - before.TotalAlloc; took > 1<<20 {
			t.Errorf("%d bytes of JSON took %d bytes of memory", len(text), took)
		}
	}
}
