package consumer

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/strikesmq/strikes/internal/servertest"
)

// withRooms are the tests of several rooms together.
var withRooms = []string{"simulation_*_test.go", "simulation_test.go", "schedules_*test.go", "spec_conduct_*test.go",
	"protocol_test.go"}

// roomFiles are the files of each room, by its name in features.go.
var roomFiles = map[string][]string{
	"queueFeature":     {"room_*queue*.go"},
	"laneFeature":      {"room_*lanes*.go", "internal/lanes/*.go"},
	"delayFeature":     {"room_*delay*.go", "internal/delay/*.go"},
	"controlFeature":   {"room_*control*.go", "internal/control/*.go"},
	"breakerFeature":   {"room_*breaker*.go"},
	"partitionFeature": {"room_*partitions*.go"},
	"all of them":      {"room_*.go", "internal/lanes/*.go", "internal/delay/*.go", "internal/control/*.go"},
}

// TestEachRoomTakenOut: without the files of a room and its line in features.go, the rest compiles and passes its
// short tests.
func TestEachRoomTakenOut(t *testing.T) {
	servertest.Long(t)
	for room, files := range roomFiles {
		t.Run(room, func(t *testing.T) {
			cmd := servertest.Go(t.Context(), "test", "-overlay", takeOut(t, room, append(files, withRooms...)), ".")
			cmd.Env = append(os.Environ(), "STRIKES_LONG=") // not this test
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// takeOut returns an overlay for go build without the files and without the room's line.
func takeOut(t *testing.T, room string, files []string) string {
	t.Helper()
	dir, err := filepath.Abs(".")
	need(t, err)
	features, err := os.ReadFile("features.go")
	need(t, err)
	var rest []string
	for line := range strings.Lines(string(features)) {
		name := strings.Trim(line, "\t,\n")
		if name != room && (room != "all of them" || !strings.HasSuffix(name, "Feature")) {
			rest = append(rest, line)
		}
	}
	kept := filepath.Join(t.TempDir(), "features.go")
	replace := map[string]string{filepath.Join(dir, "features.go"): kept}
	for _, pattern := range files {
		found, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(found), err)
		}
		for _, f := range found {
			replace[f] = ""
		}
	}
	list, err := json.Marshal(map[string]any{"Replace": replace})
	need(t, err)
	overlay := filepath.Join(t.TempDir(), "overlay.json")
	for name, text := range map[string][]byte{kept: []byte(strings.Join(rest, "")), overlay: bytes.TrimSpace(list)} {
		need(t, os.WriteFile(name, text, 0o600))
	}
	return overlay
}
