package inspect

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestFindingsHaveRunbooks compares the section Findings of docs/operations.md with the catalogue and with the findings
// of package counter: each code has its heading, each heading its code, and the lines Impact and Fix say the same.
func TestFindingsHaveRunbooks(t *testing.T) {
	page, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	sections := runbooks(string(page))
	impacts, fixes := map[string][]string{}, map[string][]string{}
	for entry, x := range catalogue() {
		if x.severity == 0 || x.seen == "" {
			t.Errorf("%s has no severity, or says no fact", entry)
		}
		code, _, _ := strings.Cut(entry, "/")
		impacts[code], fixes[code] = append(impacts[code], x.impact), append(fixes[code], x.fix)
	}
	ofStore := findingsIn(t, "../../counter/health.go", "../../counter/permissions.go", "../sqlstore/sqlstore.go")
	if len(ofStore) == 0 {
		t.Fatal("no finding of package counter was read")
	}
	for _, x := range ofStore {
		impacts[x["Code"]], fixes[x["Code"]] = append(impacts[x["Code"]], x["Impact"]), append(fixes[x["Code"]], x["Fix"])
	}
	for code := range impacts {
		section, has := sections[code]
		if !has {
			t.Errorf("docs/operations.md has no section %s", code)
			continue
		}
		compare(t, code+", Impact", section["Impact"], impacts[code])
		compare(t, code+", Fix", section["Fix"], fixes[code])
		if len(section["Look at"]) != 1 {
			t.Errorf("%s: %d lines say what to look at, want 1", code, len(section["Look at"]))
		}
	}
	for code := range sections {
		if len(impacts[code]) == 0 {
			t.Errorf("docs/operations.md has a section %s, which is the code of no finding", code)
		}
	}
}

// compare reports texts of the source that no line says, and lines that say no text of the source.
func compare(t *testing.T, what string, lines, texts []string) {
	t.Helper()
	said := map[string]bool{}
	for _, text := range texts {
		found := false
		for _, line := range lines {
			if pattern(text).MatchString(line) {
				found, said[line] = true, true
			}
		}
		if !found {
			t.Errorf("%s: no line says %q, but %q", what, text, lines)
		}
	}
	for _, line := range lines {
		if !said[line] {
			t.Errorf("%s: %q is not in the source", what, line)
		}
	}
}

var named = regexp.MustCompile(`\\\{\w+\\\}`)

// pattern matches a text in which words stand for the {names}.
func pattern(text string) *regexp.Regexp {
	return regexp.MustCompile("^" + named.ReplaceAllString(regexp.QuoteMeta(text), ".+") + `\.$`)
}

var item = regexp.MustCompile(`(?m)^- ([A-Z][a-z ]+?)(?: in a database)?: (.*(?:\n  .*)*)`)

// runbooks returns the items of each section by their label, without line breaks and backquotes. Impact and Fix in a
// database are those of the findings of internal/sqlstore.
func runbooks(page string) map[string]map[string][]string {
	_, findings, _ := strings.Cut(page, "\n## Findings\n")
	findings, _, _ = strings.Cut(findings, "\n## ")
	sections := map[string]map[string][]string{}
	for _, section := range strings.Split(findings, "\n### ")[1:] {
		code, body, _ := strings.Cut(section, "\n")
		sections[code] = map[string][]string{}
		for _, m := range item.FindAllStringSubmatch(body, -1) {
			text := strings.Join(strings.Fields(strings.ReplaceAll(m[2], "`", "")), " ")
			sections[code][m[1]] = append(sections[code][m[1]], text)
		}
	}
	return sections
}

// findingsIn returns the fields of the Findings that Go files make. What is not a constant text is {computed}.
func findingsIn(t *testing.T, files ...string) (all []map[string]string) {
	t.Helper()
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			made, is := n.(*ast.CompositeLit)
			if !is {
				return true
			}
			fields := map[string]string{}
			for _, e := range made.Elts {
				if field, named := e.(*ast.KeyValueExpr); named {
					if key, plain := field.Key.(*ast.Ident); plain {
						fields[key.Name] = constant(field.Value)
					}
				}
			}
			if fields["Code"] != "" {
				all = append(all, fields)
			}
			return true
		})
	}
	return all
}

func constant(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		if text, err := strconv.Unquote(e.Value); err == nil {
			return text
		}
	case *ast.BinaryExpr:
		return constant(e.X) + constant(e.Y)
	}
	return "{computed}"
}
