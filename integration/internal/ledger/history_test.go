package ledger

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestHistoryIsReadInTheOrderOfItsTimes(t *testing.T) {
	dir := t.TempDir()
	for process, seconds := range [][]int{{3, 5}, {1, 4}, {2}} {
		log, err := Append(dir, process)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range seconds {
			log.Write(Event{Kind: Began, At: time.Unix(int64(s), 0), ID: strconv.Itoa(s)})
		}
		if err := log.Close(); err != nil {
			t.Fatal(err)
		}
	}
	events, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
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
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteString(tc.written); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		events, err := tail.Next()
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, e := range events {
			got += e.ID
		}
		if got != tc.want {
			t.Errorf("after %q: read %q, want %q", tc.written, got, tc.want)
		}
	}
	if err := os.WriteFile(name, []byte("not JSON\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(dir); err == nil {
		t.Error("a line that is no event was read")
	}
}
