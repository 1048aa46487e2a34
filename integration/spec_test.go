package integration

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

const specDir = "../spec/v1"

// TestSpecFiles compares the files of spec/v1 with their schema, and looks for cases of one name.
func TestSpecFiles(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(specDir + "/*.json")
	if err != nil || len(files) < 5 {
		t.Fatalf("%q, %v", files, err)
	}
	for _, file := range files {
		if name := strings.TrimSuffix(filepath.Base(file), ".json"); name != "schema" {
			t.Run(name, func(t *testing.T) { checkSpecFile(t, name) })
		}
	}
}

func checkSpecFile(t *testing.T, name string) {
	raw, err := os.ReadFile(filepath.Join(specDir, name+".json"))
	need(t, err)
	var file struct {
		Schema string `json:"$schema"`
		Cases  []struct{ Name string }
	}
	need(t, json.Unmarshal(raw, &file))
	if want := "schema.json#/$defs/" + name; file.Schema != want {
		t.Errorf("its schema is %q, want %q", file.Schema, want)
	}
	schema, err := jsonschema.NewCompiler().Compile(specDir + "/" + file.Schema)
	need(t, err)
	content, err := jsonschema.UnmarshalJSON(strings.NewReader(string(raw)))
	need(t, err)
	if err := schema.Validate(content); err != nil {
		t.Error(err)
	}
	seen := map[string]bool{}
	for _, c := range file.Cases {
		if seen[c.Name] {
			t.Errorf("two cases are named %q", c.Name)
		}
		seen[c.Name] = true
	}
}
