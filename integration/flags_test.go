package integration

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

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
