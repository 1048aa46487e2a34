package broker

import "testing"

func TestParseVersion(t *testing.T) {
	for in, want := range map[string]Version{
		"3.10.8": {3, 10}, "4.0.5": {4, 0}, "4.3.6+2.g0a": {4, 3}, "4.1.0-rc.1": {4, 1}, "5.0": {5, 0},
	} {
		if got, ok := ParseVersion(in); !ok || got != want {
			t.Errorf("%q: got %v, %v", in, got, ok)
		}
	}
	for _, in := range []string{"", "4", "x.1", "4.x", "-4.1"} {
		if got, ok := ParseVersion(in); ok {
			t.Errorf("%q: got %v, want none", in, got)
		}
	}
	if v := (Version{3, 10}); v.Before(3, 9) || !v.Before(4, 0) || v.Before(3, 10) || !v.Before(3, 11) {
		t.Error("3.10 is between 3.9 and 3.11")
	}
}
