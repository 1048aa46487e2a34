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
		"counter":                {"internal/setting", "internal/uri"},
		"topology":               {"internal/setting", "internal/shell"},
		"publisher":              {"internal/dial", "internal/setting", "internal/uri"},
		"consumer":               {"counter", "internal/dial", "internal/fingerprint", "internal/setting", "internal/shell", "internal/uri", "topology"},
		"deadletter":             {"counter", "internal/dial", "internal/fingerprint", "internal/setting", "internal/uri", "publisher"},
		"integration/soak/audit": nil, // shares nothing with what it judges
		"internal/dial":          {"internal/setting", "internal/uri"},
		"internal/setting":       nil,
		"internal/poll":          nil,
		"internal/proxy":         nil,
		"internal/servers":       {"internal/proxy"},
		"internal/shell":         nil,
		"internal/uri":           {"internal/setting"},
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
