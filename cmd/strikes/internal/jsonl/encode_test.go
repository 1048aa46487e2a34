package jsonl

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestNDJSONIsFitForTerminals(t *testing.T) {
	tests := []struct{ in, want string }{
		{"plain größe 字 €", `"plain größe 字 €"`},
		{"\u009b31m", `"\u009b31m"`},
		{"\u202edrawkcab", `"\u202edrawkcab"`},
		{"\x1b[2J\x7f", `"\u001b[2J\u007f"`},
		{"\u200b\ufeff", `"\u200b\ufeff"`},
		{"\U000e0041", `"\udb40\udc41"`}, // a tag, beyond 16 bits
		{"line\nline", `"line\nline"`},
	}
	for _, tt := range tests {
		var out strings.Builder
		if err := NewEncoder(&out).Encode(tt.in); err != nil || out.String() != tt.want+"\n" {
			t.Errorf("of %q: %s, want %s (%v)", tt.in, out.String(), tt.want, err)
		}
		var back string
		if err := json.Unmarshal([]byte(out.String()), &back); err != nil || back != tt.in {
			t.Errorf("%s is read as %q (%v)", out.String(), back, err)
		}
	}
}
