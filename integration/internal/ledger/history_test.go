package ledger

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/strikesmq/strikes/internal/servertest"
)

var need = servertest.Need

func TestHistoryIsReadInTheOrderOfItsTimes(t *testing.T) {
	dir := t.TempDir()
	for process, seconds := range [][]int{{3, 5}, {1, 4}, {2}} {
		log, err := Append(dir, process)
		need(t, err)
		for _, s := range seconds {
			log.Write(Event{Kind: Began, At: time.Unix(int64(s), 0), ID: strconv.Itoa(s)})
		}
		need(t, log.Close())
	}
	events, err := Read(dir)
	need(t, err)
	var got []string
	for _, e := range events {
		got = append(got, e.ID+" of "+strconv.Itoa(e.Process))
	}
	if want := "1 of 1, 2 of 2, 3 of 0, 4 of 1, 5 of 0"; strings.Join(got, ", ") != want {
		t.Errorf("got %v, want %s", got, want)
	}
}

func TestTailWaitsForWholeLines(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "000001.ndjson")
	tail := NewTail(dir)
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
		events, err := tail.Next()
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
