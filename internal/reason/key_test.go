package reason

import "testing"

// TestKey: keys stay the same, because operators keep them in notes and scripts.
func TestKey(t *testing.T) {
	for _, tt := range []struct{ kind, reason, want string }{
		{"failed", "exit status 1: dial tcp <address>: connection refused", "34fqn6qw"},
		{"rejected", "exit status 1: dial tcp <address>: connection refused", "3e5tbmy8"},
		{"no-record", "", "nmyj9baj"},
	} {
		if got := Key(tt.kind, tt.reason); got != tt.want || !IsKey(got) {
			t.Errorf("%s, %s: %q, want %q", tt.kind, tt.reason, got, tt.want)
		}
	}
	for _, text := range []string{"", "abcdefg", "abcdefghi", "ABCDEFGH", "abcdefg0", "abcdefg-"} {
		if IsKey(text) {
			t.Errorf("%q is taken for a key", text)
		}
	}
}
