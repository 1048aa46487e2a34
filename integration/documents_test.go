package integration

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/strikesmq/strikes/internal/servertest"
)

// documents are the files whose commands, outputs and links are tested.
func documents(t *testing.T) []string {
	t.Helper()
	docs, err := filepath.Glob("../docs/*.md")
	if err != nil || len(docs) == 0 {
		t.Fatal(docs, err)
	}
	return append(docs, "../README.md", "../CONTRIBUTING.md", "../SECURITY.md")
}

// A step is a command of a document and the output that the document shows; a hidden one, in a comment, shows none.
type step struct {
	command, output string
	hidden          bool
}

var steps = regexp.MustCompile("(?s)<!-- run\n(.*?)\n-->|```console\n(.*?)```")

var written = regexp.MustCompile(`>([a-z-]+\.sh)\b`)

// TestWrittenFiles: no two documents write a program of the same name, so a reader can follow both in one directory.
func TestWrittenFiles(t *testing.T) {
	by := map[string]string{}
	for _, name := range documents(t) {
		for _, s := range stepsOf(t, name) {
			for _, file := range written.FindAllStringSubmatch(s.command, -1) {
				if other := cmp.Or(by[file[1]], name); other != name {
					t.Errorf("%s and %s write %s", other, name, file[1])
				}
				by[file[1]] = name
			}
		}
	}
	if len(by) < 3 {
		t.Errorf("only %v", by)
	}
}

func stepsOf(t *testing.T, name string) (all []step) {
	t.Helper()
	text, err := os.ReadFile(name)
	need(t, err)
	for _, m := range steps.FindAllStringSubmatch(string(text), -1) {
		if m[1] != "" {
			all = append(all, step{command: m[1], hidden: true})
			continue
		}
		for line := range strings.Lines(m[2]) {
			switch command, isCommand := strings.CutPrefix(line, "$ "); {
			case isCommand:
				all = append(all, step{command: command})
			case strings.HasPrefix(line, "> "):
				all[len(all)-1].command += line[2:]
			default:
				all[len(all)-1].output += line
			}
		}
	}
	return all
}

// notRun are commands that other tests cover: release installs the modules, .ci/run calls make.
var notRun = regexp.MustCompile(`^(make|go) `)

// TestDocuments runs the commands of each document on servers, in a virtual host of its own, and compares their
// output.
func TestDocuments(t *testing.T) {
	t.Parallel()
	bin := filepath.Dir(servertest.Program(t, "cmd/strikes"))
	for _, name := range documents(t) {
		all := slices.DeleteFunc(stepsOf(t, name), func(s step) bool { return notRun.MatchString(s.command) })
		if len(all) == 0 {
			continue
		}
		t.Run(filepath.Base(name), func(t *testing.T) {
			t.Parallel()
			amqpURL, management := servertest.VirtualHost(t), managementURL(t)
			env := append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "AMQP_URL="+amqpURL, "REDIS_URL="+redisURL(t),
				"STRIKES_MANAGEMENT_URL="+management, "STRIKES_PREFIX=docs."+uuid.NewString())
			play(t, all, env)
		})
	}
}

// play runs all steps in one shell and compares their outputs.
func play(t *testing.T, all []step, env []string) {
	t.Helper()
	dir := t.TempDir()
	file := func(i int, stream string) string { return filepath.Join(dir, strconv.Itoa(i)+"."+stream) }
	var script strings.Builder
	for i, s := range all {
		fmt.Fprintf(&script, "{\n%s\n} >'%s' 2>'%s'\n", s.command, file(i, "out"), file(i, "err"))
	}
	script.WriteString("kill $(jobs -p) 2>/dev/null; wait\n")
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", script.String())
	cmd.Dir, cmd.Env, cmd.WaitDelay = t.TempDir(), env, time.Second
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Logf("the shell: %v\n%s", err, out)
	}
	for i, s := range all {
		if s.hidden {
			continue
		}
		stdout, errOut := os.ReadFile(file(i, "out"))
		stderr, errErr := os.ReadFile(file(i, "err"))
		if errOut != nil || errErr != nil {
			t.Fatal(errOut, errErr)
		}
		if !shown(without(s.output, string(stderr))).MatchString(plain(string(stdout))) {
			t.Errorf("$ %sprints\n%s%s\nthe document shows\n%s", s.command, stdout, stderr, s.output)
		}
	}
}

// without removes the lines that are on stderr from the output in a document. The rest is on stdout.
func without(output, stderr string) (stdout string) {
	for line := range strings.Lines(output) {
		if line == "…\n" || !slices.ContainsFunc(slices.Collect(strings.Lines(stderr)), func(got string) bool {
			return shown(line).MatchString(plain(got))
		}) {
			stdout += line
		}
	}
	return stdout
}

// varying are the texts that differ from run to run, each with its placeholder.
var varying = []struct {
	was *regexp.Regexp
	is  string
}{
	{regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`), "<id>"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`), "<time>"},
	{regexp.MustCompile(`\b(\d+(\.\d+)?(µs|ms|s|m|h))+\b`), "<duration>"},
	{regexp.MustCompile(`by \S+@\S+:`), "by <user>:"},
	{regexp.MustCompile(` +`), " "},
	{regexp.MustCompile(`(?m) $`), ""},
}

func plain(s string) string {
	for _, v := range varying {
		s = v.was.ReplaceAllString(s, v.is)
	}
	return s
}

// shown matches the output in a document: a line … stands for any number of lines, and … within a line for any text.
func shown(text string) *regexp.Regexp {
	var b strings.Builder
	b.WriteString(`\A`)
	for line := range strings.Lines(plain(text)) {
		if line == "…\n" {
			b.WriteString(`(?:.*\n)*?`)
			continue
		}
		b.WriteString(strings.ReplaceAll(regexp.QuoteMeta(line), "…", `.*`))
	}
	b.WriteString(`\z`)
	return regexp.MustCompile(b.String())
}

var (
	link      = regexp.MustCompile(`\]\(([^)#:]*)(#[^)]*)?\)`)
	heading   = regexp.MustCompile(`(?m)^#+ (.*)$`)
	namedFile = regexp.MustCompile("`([\\w/]+/[\\w/]+\\.(?:go|lua))`")
	anchor    = regexp.MustCompile(`<a id="([^"]+)"`)
)

// TestLinks follows the links between the documents, and looks for the files of the repository that they name.
func TestLinks(t *testing.T) {
	t.Parallel()
	for _, name := range documents(t) {
		text, err := os.ReadFile(name)
		need(t, err)
		for _, m := range namedFile.FindAllStringSubmatch(string(text), -1) {
			if _, err := os.Stat(filepath.Join("..", m[1])); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			to := name
			if m[1] != "" {
				to = filepath.Join(filepath.Dir(name), m[1])
			}
			target, err := os.ReadFile(to)
			if info, statErr := os.Stat(to); statErr == nil && info.IsDir() {
				err = nil
			}
			if err != nil || m[2] != "" && !slices.Contains(anchorsOf(string(target)), m[2][1:]) {
				t.Errorf("%s: no %s%s: %v", name, m[1], m[2], err)
			}
		}
	}
}

// unwrapped are files whose lines other programs make, and those of Go.
var unwrapped = regexp.MustCompile(`(^|/)testdata/|\.(json|svg|png|sum|go)$`)

// TestDocumentsAreNarrow finds lines of more than 120 characters in documents, clients, templates and settings. The row
// of a table, a link definition and the output of a command cannot be wrapped, and may be longer.
func TestDocumentsAreNarrow(t *testing.T) {
	t.Parallel()
	files := strings.TrimSuffix(user{dir: ".."}.run(t, "git", "ls-files", "-z"), "\x00")
	for name := range strings.SplitSeq(files, "\x00") {
		if unwrapped.MatchString(name) {
			continue
		}
		text, err := os.ReadFile(filepath.Join("..", name))
		need(t, err)
		n, block := 0, ""
		for line := range strings.Lines(string(text)) {
			n++
			if fence, ok := strings.CutPrefix(line, "```"); ok {
				block = strings.TrimSpace(fence)
			}
			line = strings.TrimSuffix(line, "\n")
			if utf8.RuneCountInString(line) > 120 && !(strings.HasSuffix(name, ".md") && cannotWrap(block, line)) {
				t.Errorf("%s:%d: more than 120 characters: %s", name, n, line)
			}
		}
	}
}

var tableRow = regexp.MustCompile(`^\s*(\||\[[^]]+\]: )`)

// cannotWrap reports whether a line cannot be wrapped. block is the language of its block, empty outside of blocks.
func cannotWrap(block, line string) bool {
	switch block {
	case "text":
		return true
	case "console":
		return !strings.HasPrefix(line, "$ ") && !strings.HasPrefix(line, "> ")
	case "":
		return tableRow.MatchString(line)
	default:
		return false
	}
}

func anchorsOf(text string) (all []string) {
	for _, m := range heading.FindAllStringSubmatch(text, -1) {
		words := strings.Map(func(r rune) rune {
			if strings.ContainsRune("`':,.()", r) {
				return -1
			}
			return r
		}, strings.ToLower(m[1]))
		all = append(all, strings.ReplaceAll(words, " ", "-"))
	}
	for _, m := range anchor.FindAllStringSubmatch(text, -1) {
		all = append(all, m[1])
	}
	return all
}

var (
	namedTest = regexp.MustCompile(`go test (\./[\w/]+)[^` + "`" +
		`|]*?-(?:run|bench) '?\^?((?:Test|Example|Benchmark)\w*)`)
	namedTarget = regexp.MustCompile("(?:`|\\$ )make ([a-z-]+)")
	soakCommand = regexp.MustCompile("`soak ([^`]+)`")
	flagName    = regexp.MustCompile(`(?:^| )-([a-z-]+)`)
)

// TestNamedCommands looks for the tests, targets and flags that the documents name.
func TestNamedCommands(t *testing.T) {
	t.Parallel()
	makefile := read(t, "../Makefile")
	soak := readAll(t, "lab/soak/*.go") + readAll(t, "internal/rig/*.go")
	for _, name := range documents(t) {
		text := strings.ReplaceAll(read(t, name), "\n", " ")
		for _, m := range namedTest.FindAllStringSubmatch(text, -1) {
			if !strings.Contains(readAll(t, filepath.Join("..", m[1], "*_test.go")), "func "+m[2]) {
				t.Errorf("%s: no test %s in %s", name, m[2], m[1])
			}
		}
		for _, m := range namedTarget.FindAllStringSubmatch(text, -1) {
			if !strings.Contains(makefile, "\n"+m[1]+": ") {
				t.Errorf("%s: no target %s", name, m[1])
			}
		}
		for _, m := range soakCommand.FindAllStringSubmatch(text, -1) {
			for _, f := range flagName.FindAllStringSubmatch(m[1], -1) {
				if !strings.Contains(soak, `"`+f[1]+`"`) {
					t.Errorf("%s: soak has no flag -%s", name, f[1])
				}
			}
		}
	}
}

var (
	fenced = regexp.MustCompile("(?ms)^ *```.*?^ *```$")
	inline = regexp.MustCompile("`(?:strikes )?([a-z]+(?: [a-z]+)?)( [^`]*)`")
	typed  = regexp.MustCompile(`\bstrikes ([a-z]+(?: [a-z]+)?)( [^|&>\n]*)`)
	option = regexp.MustCompile(`--[a-z][a-z-]*`)
)

// TestNamedFlags: each flag of a command in a document is one of those that the help of the command lists.
func TestNamedFlags(t *testing.T) {
	t.Parallel()
	bin, help, flags := servertest.Program(t, "cmd/strikes"), map[string]string{}, 0
	helpOf := func(command string) string {
		if help[command] == "" {
			out, err := exec.CommandContext(t.Context(), bin, append([]string{"help"}, strings.Fields(command)...)...).Output()
			need(t, err)
			help[command] = string(out) + " --help "
		}
		return help[command]
	}
	clients, err := filepath.Glob("../clients/*/*.md")
	need(t, err)
	commands := strings.Fields(regexp.MustCompile(`(?m)^  ([a-z]+)  .*|.*`).ReplaceAllString(helpOf(""), "$1"))
	for _, name := range append(documents(t), clients...) {
		text := strings.ReplaceAll(read(t, name), "\\\n", " ")
		named := inline.FindAllStringSubmatch(strings.ReplaceAll(fenced.ReplaceAllString(text, ""), "\n", " "), -1)
		for _, block := range fenced.FindAllString(text, -1) {
			named = append(named, typed.FindAllStringSubmatch(block, -1)...)
		}
		for _, m := range named {
			if first, _, _ := strings.Cut(m[1], " "); !slices.Contains(commands, first) {
				continue
			}
			ours, _, _ := strings.Cut(m[2]+" ", " -- ")
			for _, flag := range option.FindAllString(ours, -1) {
				if flags++; !regexp.MustCompile(flag + `[\s,:]`).MatchString(helpOf(m[1])) {
					t.Errorf("%s: strikes %s has no flag %s: %s", name, m[1], flag, m[0])
				}
			}
		}
	}
	if flags < 100 {
		t.Errorf("only %d flags found", flags)
	}
}

// lateFlag matches a command with a flag after the name of a queue. A name that begins with a dash comes after --, and
// a flag behind it would count as another name.
var lateFlag = regexp.MustCompile(`strikes [a-z][a-z ]*(?:%s|%\[\d\]s|\{queue\}) --[a-z]` +
	`|Operands\([^()]*\) \+ " --[a-z]`)

// TestFlagsBeforeNames: every command that a text names has its flags before the names.
func TestFlagsBeforeNames(t *testing.T) {
	t.Parallel()
	joined, folded := regexp.MustCompile(`" \+\s+"`), regexp.MustCompile(`\n +`)
	for _, name := range []string{"cmd/strikes/*.go", "cmd/strikes/internal/*/*.go", "console/*.go", "consumer/*.go",
		"deadletter/*.go", "doctor/*.go", "internal/*/*.go", "internal/inspect/catalogue.txt", "ops/*.go", "topology/*.go"} {
		text := folded.ReplaceAllString(joined.ReplaceAllString(readAll(t, "../"+name), ""), " ")
		for _, late := range lateFlag.FindAllString(text, -1) {
			t.Errorf("%s: %s", name, late)
		}
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	need(t, err)
	return string(text)
}

func readAll(t *testing.T, pattern string) (all string) {
	t.Helper()
	names, err := filepath.Glob(pattern)
	need(t, err)
	for _, name := range names {
		all += read(t, name)
	}
	return all
}

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
