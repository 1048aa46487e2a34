//go:build gendocs

// With the tag gendocs the program writes its man pages and completion scripts instead: go run -tags gendocs
// ./cmd/strikes DIR. The released binary has nothing of it.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: go run -tags gendocs ./cmd/strikes DIR")
		os.Exit(2)
	}
	if err := generate(new(app).root(), os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "gendocs:", err)
		os.Exit(1)
	}
}

// generate writes man pages to dir/man and completion scripts to dir/completions.
func generate(root *cobra.Command, dir string) error {
	man, completions := filepath.Join(dir, "man"), filepath.Join(dir, "completions")
	for _, d := range []string{man, completions} {
		if err := os.MkdirAll(d, 0o750); err != nil {
			return err
		}
	}
	root.DisableAutoGenTag = true
	if err := doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: "strikes", Manual: "strikes"},
		man); err != nil {
		return err
	}
	for name, write := range map[string]func(string) error{
		"strikes.bash": func(file string) error { return root.GenBashCompletionFileV2(file, true) },
		"_strikes":     func(file string) error { return root.GenZshCompletionFile(file) },
		"strikes.fish": func(file string) error { return root.GenFishCompletionFile(file, true) },
	} {
		if err := write(filepath.Join(completions, name)); err != nil {
			return err
		}
	}
	return nil
}
