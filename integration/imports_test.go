package integration

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/strikesmq/strikes/internal/servertest"
)

const module = "github.com/strikesmq/strikes/"

// The packages that the library's users import, and those that start servers for tests, examples and the demo.
var (
	public     = []string{"consumer", "counter", "deadletter", "doctor", "publisher", "topology"}
	laboratory = []string{"internal/poll", "internal/proxy", "internal/servers"}
)

// arrows lists the packages of the project that each of its packages may import. A name that ends in /... stands for
// all packages below it.
var arrows = map[string][]string{
	"counter":   {"counter/rules", "internal/panics", "internal/printable", "internal/setting"},
	"publisher": {"internal/broker", "internal/pause", "internal/printable", "internal/setting"},
	"topology": {"internal/inspect", "internal/broker", "internal/pause", "internal/printable", "internal/setting",
		"internal/shell"},
	"consumer": {"counter", "topology", "consumer/internal/acks", "consumer/internal/bound",
		"consumer/internal/control", "consumer/internal/delay", "consumer/internal/lanes",
		"counter/rules", "internal/broker", "internal/printable",
		"internal/pause", "internal/setting"},
	"deadletter": {"counter", "counter/rules", "publisher", "internal/broker",
		"internal/pause", "internal/printable", "internal/reason", "internal/setting"},

	"console": {"counter", "deadletter", "internal/broker", "doctor", "internal/inspect", "internal/panics",
		"internal/printable",
		"internal/reason", "ops", "internal/setting", "internal/shell"},

	"consumer/internal/acks":    nil, // knows nothing of attempts
	"consumer/internal/bound":   nil,
	"consumer/internal/control": {"counter"},
	"consumer/internal/delay":   {"consumer/internal/bound", "internal/broker"},
	"consumer/internal/lanes":   {"consumer/internal/bound", "counter", "counter/rules", "internal/pause"},
	"counter/rules":             {"internal/printable"}, // knows nothing of stores

	"internal/printable": nil,
	"internal/setting":   nil,
	"internal/shell":     nil,
	"internal/panics":    nil,
	"internal/pause":     nil,
	"internal/broker":    {"internal/printable", "internal/setting", "internal/shell"},
	"doctor": {"counter", "internal/broker", "internal/inspect", "internal/panics", "internal/printable",
		"internal/reason", "internal/setting", "internal/shell"},
	"ops": {"counter", "counter/rules", "deadletter", "doctor", "internal/broker", "internal/inspect", "internal/panics",
		"internal/pause", "internal/printable", "internal/reason", "internal/shell"},

	"internal/inbox": {"consumer", "internal/sqlstore"},

	"internal/sqlstore": {"counter", "internal/pause", "internal/setting"},

	"internal/inspect": {"internal/broker", "internal/panics", "internal/printable"},
	"internal/reason":  {"internal/printable"},

	"internal/poll":       {"internal/pause"},
	"internal/proxy":      {"internal/pause"},
	"internal/servers":    {"internal/poll"},
	"internal/servertest": {"internal/servers"},
	"internal/proctest":   {"internal/poll"},

	"cmd/strikes": join(public, "console", "cmd/strikes/internal/...", "doctor", "internal/inspect",
		"internal/broker", "internal/pause", "internal/poll", "internal/printable", "internal/reason", "internal/servers",
		"ops", "internal/setting", "internal/shell", "store/mysql", "store/postgres"),
	"cmd/strikes/internal/push": {"consumer", "internal/printable", "internal/broker", "internal/reason",
		"internal/setting"},
	"cmd/strikes/internal/render": join(public, "cmd/strikes/internal/jsonl", "cmd/strikes/internal/term",
		"internal/broker", "ops", "internal/printable",
		"internal/shell"),
	"cmd/strikes/internal/term":  {"internal/printable"},
	"cmd/strikes/internal/jsonl": {"internal/printable"},
	"cmd/strikes/internal/cli": join(public, "cmd/strikes/internal/term", "internal/inspect", "internal/broker",
		"internal/printable", "internal/setting", "internal/shell"),
	"cmd/strikes/internal/connect": join(public, "cmd/strikes/internal/cli", "internal/broker", "doctor",
		"internal/inspect", "internal/setting", "internal/shell", "store/mysql", "store/postgres"),

	"plugin/otelstrikes": {"consumer", "publisher"},
	"plugin/pgstrikes":   {"consumer", "internal/inbox"},
	"plugin/promstrikes": {"consumer"},
	"plugin/sqlstrikes":  {"consumer", "internal/inbox"},
	"store/mysql":        {"counter", "internal/setting", "internal/sqlstore"},
	"store/postgres":     {"counter", "internal/setting", "internal/sqlstore"},
	"counter/storetest":  {"counter", "counter/rules", "internal/panics"},
	"examples":           nil,
	"examples/...":       join(public, "plugin/pgstrikes", "plugin/promstrikes"),

	"integration":         nil,
	"integration/console": nil,
	"integration/clients": nil,
	"integration/inbox":   nil,
	"integration/internal/rig": {"counter", "publisher", "topology", "internal/pause", "internal/poll", "internal/proxy",
		"internal/servers", "store/mysql", "store/postgres"},
	"integration/internal/fleet": {"integration/internal/rig", "internal/pause", "internal/poll", "internal/proxy"},
	"integration/internal/faults": {"integration/internal/fleet", "integration/internal/ledger",
		"integration/internal/rig", "internal/audit", "internal/pause", "internal/proxy"},
	"integration/internal/ledger": {"internal/audit"},
	"integration/internal/work":   {"consumer", "internal/audit", "internal/pause"},
	"integration/lab":             {"integration/internal/fleet", "integration/lab/..."},
	"integration/lab/...": join(public, join(laboratory, "counter/rules", "internal/audit", "internal/broker",
		"internal/pause", "internal/printable", "integration/internal/...", "integration/lab/ways")...),
	"internal/audit": nil, // shares nothing with the code that it judges
}

func join(a []string, b ...string) []string { return slices.Concat(a, b) }

// TestImportsGoOneWay compares the imports of every package in every module with the arrows of docs/architecture.md.
func TestImportsGoOneWay(t *testing.T) {
	t.Parallel()
	imports := importsOf(t)
	for _, p := range slices.Sorted(maps.Keys(imports)) {
		may, known := rule(p)
		if !known {
			t.Errorf("%s has no arrows: add it to the table", p)
		}
		for _, dep := range imports[p] {
			if !slices.ContainsFunc(may, func(pattern string) bool { return matches(pattern, dep) }) {
				t.Errorf("%s imports %s", p, dep)
			}
		}
	}
	for pattern := range arrows {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(imports)), func(p string) bool { return matches(pattern, p) }) {
			t.Errorf("%s is in the table and not in the project", pattern)
		}
	}
}

// TestLibraryNeedsNoLaboratory follows the imports of the public packages to their ends.
func TestLibraryNeedsNoLaboratory(t *testing.T) {
	servertest.Long(t)
	t.Parallel()
	imports := importsOf(t)
	for _, p := range public {
		for _, dep := range reach(imports, p) {
			if slices.Contains(laboratory, dep) || dep == "internal/audit" || strings.HasPrefix(dep, "cmd/") ||
				strings.HasPrefix(dep, "integration") {
				t.Errorf("%s needs %s", p, dep)
			}
		}
	}
}

// TestRooms looks for packages that no folder's name explains, and for arrows between two rooms that point both ways.
func TestRooms(t *testing.T) {
	t.Parallel()
	imports := importsOf(t)
	between := map[[2]string]bool{}
	for p, deps := range imports {
		if p == "" || slices.Contains([]string{"pkg", "util", "utils", "common", "helpers", "misc", "types"}, path.Base(p)) {
			t.Errorf("%q names no room", p)
		}
		for _, dep := range deps {
			between[[2]string{room(p), room(dep)}] = true
		}
	}
	for arrow := range between {
		if arrow[0] < arrow[1] && between[[2]string{arrow[1], arrow[0]}] {
			t.Errorf("%s and %s import each other", arrow[0], arrow[1])
		}
	}
}

// room is the folder of a package without the part of its path that is internal to it.
func room(p string) string {
	if outer, _, nested := strings.Cut(p, "/internal/"); nested && !strings.HasPrefix(p, "cmd/") {
		return outer
	}
	return p
}

// importsOf lists the imports among the packages of all modules, tests aside.
func importsOf(t *testing.T) map[string][]string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-f", `{{.ImportPath}} {{join .Imports " "}}`,
		"work").Output()
	if err != nil {
		t.Fatalf("go list work: %v", err)
	}
	imports := map[string][]string{}
	for line := range strings.Lines(string(out)) {
		names := strings.Fields(line)
		var ours []string
		for _, dep := range names[1:] {
			if name, found := strings.CutPrefix(dep, module); found {
				ours = append(ours, name)
			}
		}
		name, _ := strings.CutPrefix(names[0]+"/", module)
		imports[strings.TrimSuffix(name, "/")] = ours
	}
	return imports
}

func reach(imports map[string][]string, p string) []string {
	seen := map[string]bool{}
	var follow func(string)
	follow = func(p string) {
		for _, dep := range imports[p] {
			if !seen[dep] {
				seen[dep] = true
				follow(dep)
			}
		}
	}
	follow(p)
	return slices.Sorted(maps.Keys(seen))
}

func rule(p string) (may []string, known bool) {
	if may, known = arrows[p]; known {
		return may, true
	}
	for pattern, may := range arrows {
		if matches(pattern, p) {
			return may, true
		}
	}
	return nil, false
}

func matches(pattern, p string) bool {
	if above, wide := strings.CutSuffix(pattern, "..."); wide {
		return strings.HasPrefix(p, above)
	}
	return pattern == p
}

var (
	anyFlag      = regexp.MustCompile(`--[a-z]`)
	wholeCommand = regexp.MustCompile(`redis-cli|rabbitmqctl |strikes `)
)

// TestLibraryNamesNoFlag reads every text of the library. A program that imports it has fields where the command has
// flags; the command itself replaces the names of fields.
func TestLibraryNamesNoFlag(t *testing.T) {
	t.Parallel()
	texts := 0
	for _, name := range append([]string{"plugin/otelstrikes", "plugin/pgstrikes", "plugin/promstrikes",
		"plugin/sqlstrikes"}, public...) {
		files, err := filepath.Glob(filepath.Join("..", name, "*.go"))
		need(t, err)
		for _, path := range files {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			source, err := os.ReadFile(path)
			need(t, err)
			set := token.NewFileSet()
			file, err := parser.ParseFile(set, path, source, parser.SkipObjectResolution)
			need(t, err)
			ast.Inspect(file, func(n ast.Node) bool {
				text, is := n.(*ast.BasicLit)
				if !is || text.Kind != token.STRING {
					return true
				}
				texts++
				if anyFlag.MatchString(text.Value) && !wholeCommand.MatchString(text.Value) {
					t.Errorf("%v names a flag: %s", set.Position(text.Pos()), text.Value)
				}
				return true
			})
		}
	}
	if texts < 1000 {
		t.Errorf("only %d texts were read", texts)
	}
}
