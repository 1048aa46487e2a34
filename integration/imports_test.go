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
		"counter":                {"internal/setting"},
		"topology":               {"internal/setting", "internal/shell"},
		"publisher":              {"internal/amqpdial", "internal/setting"},
		"consumer":               {"counter", "internal/amqpdial", "internal/fingerprint", "internal/setting", "internal/shell", "topology"},
		"deadletter":             {"counter", "internal/amqpdial", "internal/fingerprint", "internal/setting", "publisher"},
		"integration/soak/audit": nil, // shares nothing with what it judges
		"internal/amqpdial":      {"internal/setting"},
		"internal/setting":       nil,
		"internal/poll":          nil,
		"internal/proxy":         nil,
		"internal/servers":       {"internal/proxy"},
		"internal/shell":         nil,
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
