package main

import (
	"strings"
	"testing"
)

// TestOwnLinesBeginFresh: a line of this program begins on a fresh line, also after half a line of CMD's. Nothing else
// is added to CMD's output.
func TestOwnLinesBeginFresh(t *testing.T) {
	var out strings.Builder
	var shared place
	cmd, other, own := stream{&shared, &out, false}, stream{&shared, &out, false}, stream{&shared, &out, true}
	for _, w := range []struct {
		to   stream
		text string
	}{
		{own, "retry a\n"}, {cmd, "half"}, {cmd, ""}, {own, "retry b\n"}, {own, "retry c\n"}, {cmd, " way"},
		{other, " there\n"}, {own, "ack d\n"},
	} {
		if n, err := w.to.Write([]byte(w.text)); n != len(w.text) || err != nil {
			t.Errorf("%q: %d, %v", w.text, n, err)
		}
	}
	if want := "retry a\nhalf\nretry b\nretry c\n way there\nack d\n"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}
