package panics

import (
	"errors"
	"strings"
	"testing"
)

func TestGroup(t *testing.T) {
	away := errors.New("away")
	for _, c := range []struct {
		name      string
		functions []func() error
		err       error
		panics    string
	}{
		{name: "none"},
		{name: "one fails", functions: []func() error{func() error { return nil }, func() error { return away }}, err: away},
		{name: "one panics", functions: []func() error{func() error { return away }, func() error {
			panic("broken")
		}}, panics: "broken"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var g Group
			g.SetLimit(2)
			for _, f := range c.functions {
				g.Go(f)
			}
			defer func() {
				text, _ := recover().(string)
				if first, stack, _ := strings.Cut(text, "\n"); first != c.panics || c.panics != "" && !strings.Contains(stack,
					"TestGroup") {
					t.Errorf("Wait panicked with %q, want %q and its stack", text, c.panics)
				}
			}()
			if err := g.Wait(); !errors.Is(err, c.err) {
				t.Errorf("Wait returned %v, want %v", err, c.err)
			}
		})
	}
}
