package ledger

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/strikesmq/strikes/internal/servertest"
)

var need = servertest.Need

func TestReadingWaitsForWholeLines(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "000001.ndjson")
	read := map[string]int64{}
	for _, tc := range []struct{ written, want string }{
		{`{"kind":"began","id":"a"}` + "\n" + `{"kind":"be`, "a"},
		{`gan","id":"b"}` + "\n", "b"},
		{"", ""},
	} {
		f, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		need(t, err)
		if _, err := f.WriteString(tc.written); err != nil {
			t.Fatal(err)
		}
		need(t, f.Close())
		events, err := next(dir, read)
		need(t, err)
		got := ""
		for _, e := range events {
			got += e.ID
		}
		if got != tc.want {
			t.Errorf("after %q: read %q, want %q", tc.written, got, tc.want)
		}
	}
	need(t, os.WriteFile(name, []byte("not JSON\n"), 0o600))
	if _, err := Read(dir); err == nil {
		t.Error("a line that is no event was read")
	}
}
