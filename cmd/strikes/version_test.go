package main

import (
	"runtime"
	"runtime/debug"
	"testing"
)

func TestBuild(t *testing.T) {
	t.Parallel()
	suffix := " (" + runtime.Version() + ", " + runtime.GOOS + "/" + runtime.GOARCH + ")"
	settings := []debug.BuildSetting{{Key: "vcs.revision", Value: "abc123"}, {Key: "vcs.modified", Value: "true"},
		{Key: "vcs.time", Value: "2026-01-01T00:00:00Z"}}
	tests := []struct {
		info *debug.BuildInfo
		want string
	}{
		{nil, "strikes (devel)"},
		{&debug.BuildInfo{}, "strikes (devel)"},
		{&debug.BuildInfo{Main: debug.Module{Version: "v1.2.3"}}, "strikes v1.2.3"},
		{&debug.BuildInfo{Main: debug.Module{Version: "(devel)"}, Settings: settings}, "strikes (devel) abc123, modified"},
		{&debug.BuildInfo{Main: debug.Module{Version: "v1.2.3"}, Settings: settings[:1]}, "strikes v1.2.3 abc123"},
	}
	for _, tt := range tests {
		if got := buildOf(tt.info); got != tt.want+suffix {
			t.Errorf("%q, want %q", got, tt.want+suffix)
		}
	}
}
