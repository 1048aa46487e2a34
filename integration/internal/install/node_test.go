package install

import "testing"

func TestCheckNode(t *testing.T) {
	for version, ok := range map[string]bool{"v18.20.4\n": true, "v22.0.0": true, "v16.20.2\n": false, "": false, "node": false} {
		if err := checkNode(version); (err == nil) != ok {
			t.Errorf("%q: %v", version, err)
		}
	}
}
