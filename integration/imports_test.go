package integration

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// TestImportsGoOneWay holds the public packages, and what they are built on, to the direction in which data flows.
func TestImportsGoOneWay(t *testing.T) {
	const module = "github.com/strikesmq/strikes/"
	allowed := map[string][]string{
		"counter": nil, "topology": nil,
		"publisher":              {"internal/dial"},
		"consumer":               {"counter", "internal/dial", "internal/fingerprint", "topology"},
		"deadletter":             {"counter", "internal/dial", "internal/fingerprint", "publisher"},
		"integration/soak/audit": nil, // shares nothing with what it judges
		"internal/dial":          nil,
		"internal/poll":          nil,
		"internal/proxy":         nil,
		"internal/servers":       {"internal/proxy"},
	}
	for name, may := range allowed {
		out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", module+name).Output()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for dep := range strings.FieldsSeq(string(out)) {
			if of, ours := strings.CutPrefix(dep, module); ours && of != name && !slices.Contains(may, of) {
				t.Errorf("%s imports %s", name, of)
			}
		}
	}
}
