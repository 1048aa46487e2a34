package main

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// registered are the names of the exporter's metrics, and of those that plugin/promstrikes registers.
func registered(t *testing.T) []string {
	t.Helper()
	all := make(chan *prometheus.Desc, 100)
	(&exporter{}).Describe(all)
	close(all)
	var names []string
	for d := range all {
		names = append(names, regexp.MustCompile(`fqName: "(\w+)"`).FindStringSubmatch(d.String())[1])
	}
	for _, m := range regexp.MustCompile(`Name: "(strikes_\w+)"`).FindAllStringSubmatch(read(t,
		"plugin/promstrikes/promstrikes.go"), -1) {
		names = append(names, m[1])
	}
	return names
}

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile("../../" + name)
	need(t, err)
	return string(b)
}

// TestEveryMetricExists: the dashboard and the alert rules ask for nothing that no exporter has, and docs/telemetry.md
// has all.
func TestEveryMetricExists(t *testing.T) {
	names := registered(t)
	for _, file := range []string{"deploy/grafana/strikes.json", "deploy/prometheus/strikes.rules.yml",
		"docs/telemetry.md"} {
		used := regexp.MustCompile(`\bstrikes_\w+`).FindAllString(read(t, file), -1)
		if len(used) == 0 {
			t.Errorf("%s uses no metric", file)
		}
		for _, name := range used {
			if !slices.Contains(names, strings.TrimSuffix(name, "_bucket")) {
				t.Errorf("%s uses %s, which is not registered", file, name)
			}
		}
	}
	for _, name := range names {
		if !strings.Contains(read(t, "docs/telemetry.md"), "`"+name+"`") {
			t.Errorf("docs/telemetry.md lacks %s", name)
		}
	}
}
