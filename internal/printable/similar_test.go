package printable

import "testing"

func TestDidYouMean(t *testing.T) {
	names := []string{"list", "show", "replay", "drop", "dead-letter-queue"}
	for name, want := range map[string]string{
		"lst": `; did you mean "list"?`, "lists": `; did you mean "list"?`, "LIST": `; did you mean "list"?`,
		"repaly": `; did you mean "replay"?`,
		"shop":   `; did you mean "show"?`, "dead-letter": `; did you mean "dead-letter-queue"?`, "x": "", "bogus": "",
		"queue": `; did you mean "dead-letter-queue"?`, "drop-": `; did you mean "drop"?`,
		"":     "",
		"list": "",
	} {
		if got := DidYouMean(name, names, ""); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
	if got := DidYouMean("orders.dlq", []string{"orders.dlq.old", "orders.dlp", "orders", "other"},
		""); got != `; did you mean "orders.dlp" or "orders.dlq.old" or "orders"?` {
		t.Error(got)
	}
	if got := DidYouMean("lst", names, "--"); got != `; did you mean "--list"?` {
		t.Error(got)
	}
}
