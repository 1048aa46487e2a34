package counter

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"testing"
)

// TestSpecRunnerFails changes one expected value of each case in turn, and all of one. A runner that compares nothing
// would pass.
func TestSpecRunnerFails(t *testing.T) {
	raw, err := os.ReadFile("../spec/v1/steps.json")
	need(t, err)
	var file struct{ Cases []map[string]any }
	need(t, json.Unmarshal(raw, &file))
	memory, redis := memoryUnderTest(), stores(t)[1]
	for i, tc := range file.Cases {
		leaves := leavesOf(tc)
		if i > 0 {
			leaves = leaves[i*7%len(leaves):][:1]
		}
		for _, l := range leaves {
			was := l.get()
			l.set(mutated(was))
			changed, err := json.Marshal(tc)
			need(t, err)
			l.set(was)
			var wrong stepsCase
			if decodeSpec(changed, &wrong) != nil {
				continue
			}
			on := memory
			if wrong.hasTypes() {
				on = redis
			}
			if len(runSteps(t, on, wrong)) == 0 {
				t.Errorf("%v: %s was changed from %v to %v, and no difference was found", tc["name"], l.path, was, mutated(was))
			}
		}
	}
}

// leaf is one expected value of a case.
type leaf struct {
	path string
	get  func() any
	set  func(any)
}

// leavesOf lists the values of replies and of the record afterwards.
func leavesOf(tc map[string]any) (out []leaf) {
	for i, step := range tc["steps"].([]any) {
		of := step.(map[string]any)
		out = append(out, leavesAt(fmt.Sprintf("steps[%d].reply", i), of["reply"], func(v any) { of["reply"] = v })...)
	}
	after := tc["after"].(map[string]any)
	return append(out, leavesAt("after", after, func(v any) { tc["after"] = v })...)
}

func leavesAt(path string, v any, set func(any)) (out []leaf) {
	switch v := v.(type) {
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			out = append(out, leavesAt(path+"."+k, v[k], func(x any) { v[k] = x })...)
		}
	case []any:
		for i := range v {
			out = append(out, leavesAt(fmt.Sprintf("%s[%d]", path, i), v[i], func(x any) { v[i] = x })...)
		}
	default:
		out = append(out, leaf{path, func() any { return v }, set})
	}
	return out
}

// mutated is another value of the same type. A number changes by more than the time that a case may take.
func mutated(v any) any {
	switch v := v.(type) {
	case float64:
		return v + 86_400_001
	case bool:
		return !v
	case string:
		return v + "x"
	}
	return "x"
}
