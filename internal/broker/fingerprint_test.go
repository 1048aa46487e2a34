package broker

import (
	"strings"
	"testing"
)

func TestFingerprint(t *testing.T) {
	seen := map[string][4]string{}
	for _, m := range [][4]string{
		{"", "", "", ""}, {"", "", "", "body"}, {"", "", "", "body2"}, {"b", "", "", "ody"}, {"", "b", "", "ody"},
		{"", "", "b", "ody"},
		{"a", "b", "", ""}, {"", "a", "b", ""}, {"ab", "", "", ""}, {"\xff", "", "", ""},
	} {
		got := Fingerprint(m[0], m[1], m[2], []byte(m[3]))
		if !strings.HasPrefix(got, FingerprintPrefix) || len(got) != len(FingerprintPrefix)+12 ||
			got != Fingerprint(m[0], m[1], m[2], []byte(m[3])) {
			t.Errorf("%q: %s", m, got)
		}
		if other, both := seen[got]; both {
			t.Errorf("%q and %q are both %s", m, other, got)
		}
		seen[got] = m
	}
}
