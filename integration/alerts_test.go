package integration

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const alertRules = "../deploy/prometheus/strikes.rules.yml"

// TestAlertsHaveRunbooks: each alert links the section of docs/operations.md that names it, and no section names
// another alert.
func TestAlertsHaveRunbooks(t *testing.T) {
	t.Parallel()
	rules, runbooks := read(t, alertRules), read(t, "../docs/operations.md")
	_, alerts, _ := strings.Cut(runbooks, "\n## Alerts\n")
	sections := map[string]string{}
	for section := range strings.SplitSeq(alerts, "\n### ") {
		title, body, _ := strings.Cut(section, "\n")
		sections[strings.ReplaceAll(strings.ToLower(title), " ", "-")] = body
	}
	known := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?s)- alert: (\w+)\n.*?runbook_url: \S+/docs/operations\.md#(\S+)\n`).
		FindAllStringSubmatch(rules, -1) {
		name, anchor := m[1], m[2]
		known[name] = true
		if !strings.Contains(sections[anchor], "`"+name+"`") {
			t.Errorf("the section #%s of docs/operations.md does not name %s", anchor, name)
		}
	}
	if want := strings.Count(rules, "- alert: "); len(known) != want || want == 0 {
		t.Errorf("%d of %d alerts link a runbook", len(known), want)
	}
	for _, m := range regexp.MustCompile("`(Strikes[A-Z]\\w+)`").FindAllStringSubmatch(runbooks, -1) {
		if !known[m[1]] {
			t.Errorf("docs/operations.md names the alert %s, which is not in the rules", m[1])
		}
	}
}

// TestAlertRules: each alert fires when it should, and not before.
func TestAlertRules(t *testing.T) {
	t.Parallel()
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		promtool, err = filepath.Abs("../bin/promtool") // make promtool puts it there
		need(t, err)
	}
	for _, args := range [][]string{{"check", "rules", "strikes.rules.yml"}, {"test", "rules", "strikes.rules.test.yml"}} {
		cmd := exec.CommandContext(t.Context(), promtool, args...)
		cmd.Dir = "../deploy/prometheus"
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %q: %v\n%s", args, err, out)
		}
	}
	cases := read(t, "../deploy/prometheus/strikes.rules.test.yml")
	for _, m := range regexp.MustCompile(`- alert: (\w+)`).FindAllStringSubmatch(read(t, alertRules), -1) {
		if !strings.Contains(cases, "alertname: "+m[1]+"\n") {
			t.Errorf("%s is not tested", m[1])
		}
	}
}
