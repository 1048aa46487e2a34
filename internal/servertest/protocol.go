package servertest

import (
	"bytes"
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"
)

// Documented returns the table of docs/protocol.md that follows a heading: values by their names, without the
// explanations. The test must run in a directory of the repository's root.
func Documented(t testing.TB, heading string) map[string]string {
	t.Helper()
	text, err := os.ReadFile("../docs/protocol.md")
	Need(t, err)
	_, section, found := strings.Cut(string(text), "\n"+heading)
	_, rows, ok := strings.Cut(section, "\n|---|---|\n")
	if !found || !ok {
		t.Fatalf("no table follows %q", heading)
	}
	rows, _, _ = strings.Cut(rows, "\n\n")
	explained := regexp.MustCompile(`( \(| each$| at most$| at least$|,).*`)
	values := map[string]string{}
	for line := range strings.Lines(rows) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 2 {
			t.Fatalf("%q is no row", line)
		}
		values[strings.TrimSpace(cells[0])] = explained.ReplaceAllString(strings.TrimSpace(cells[1]), "")
	}
	return values
}

// SpecCases reads a file of spec/v1; spec/README.md describes it. A field that no runner knows is an error. The test
// must run in a directory of the repository's root.
func SpecCases[T any](t testing.TB, file string) []T {
	t.Helper()
	raw, err := os.ReadFile("../spec/v1/" + file)
	Need(t, err)
	var of struct {
		Schema string `json:"$schema"`
		Cases  []T    `json:"cases"`
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(&of); err != nil || len(of.Cases) == 0 {
		t.Fatalf("%s: %d cases, %v", file, len(of.Cases), err)
	}
	return of.Cases
}
