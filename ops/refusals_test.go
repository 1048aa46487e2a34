package ops

import (
	"context"
	"testing"

	"github.com/strikesmq/strikes/counter"
)

// faulty is a Store with findings.
type faulty struct {
	counter.Store
	found []counter.Finding
}

func (f faulty) Examine(context.Context) ([]counter.Finding, error) { return f.found, nil }
func (faulty) Close() error                                         { return nil }

// TestRefusals: status shows that a store takes no writes now. It does not show that a server is old, or that its own
// user lacks permissions.
func TestRefusals(t *testing.T) {
	c := counter.Over(faulty{found: []counter.Finding{
		{Code: "store-version", Severe: true}, {Code: "store-acl", Severe: true}, {Code: "store-evicts"},
		{Code: "store-memory", Severe: true},
	}}, nil)
	defer c.Close()
	found := refusals(t.Context(), c.Admin())
	if len(found) != 1 || found[0].Code != "store-memory" {
		t.Errorf("found %+v", found)
	}
}
