package main

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
)

// TestFileOfOneDropAtATime opens a file for a second drop, which must neither write to it nor lose it to the first.
func TestFileOfOneDropAtATime(t *testing.T) {
	name := filepath.Join(t.TempDir(), "kept")
	first, err := openKeep(name, "a.dlq")
	need(t, err)
	_, err = openKeep(name, "b.dlq")
	if cli.ExitCode(err) != cli.ExitMisuse || !strings.Contains(err.Error(), "another command writes to "+name) {
		t.Errorf("%v, want a refusal that names the file", err)
	}
	need(t, first.finish())
	if _, err := os.Stat(name); !os.IsNotExist(err) {
		t.Errorf("%v, want no file for nothing", err)
	}

	moved, err := openKeep(name, "a.dlq")
	need(t, err)
	need(t, os.Rename(name, name+".old"))
	second, err := openKeep(name, "b.dlq")
	need(t, err)
	need(t, second.keepLine([]byte("{}")))
	need(t, second.finish())
	need(t, moved.finish())
	if got, err := os.ReadFile(name); string(got) != "{}\n" {
		t.Errorf("the file holds %q (%v), want the line of the second drop", got, err)
	}

	need(t, os.WriteFile(name, nil, 0o600))
	empty, err := openKeep(name, "a.dlq")
	need(t, err)
	need(t, empty.finish())
	if _, err := os.Stat(name); err != nil {
		t.Errorf("%v, want the empty file that was there", err)
	}
}

// TestDropsIntoOneFile has several drops open one file at once. One writes a line, and the others find nothing.
func TestDropsIntoOneFile(t *testing.T) {
	dir := t.TempDir()
	for round := range 100 {
		name := filepath.Join(dir, strconv.Itoa(round))
		var wg sync.WaitGroup
		drop := func(line string) {
			file, err := openKeep(name, "q.dlq")
			for err != nil && line != "" {
				file, err = openKeep(name, "q.dlq")
			}
			if err == nil && line != "" {
				err = errors.Join(file.keepLine([]byte(line)), file.finish())
			} else if err == nil {
				err = file.finish()
			}
			if err != nil && cli.ExitCode(err) != cli.ExitMisuse {
				t.Error(err)
			}
		}
		for range 4 {
			wg.Go(func() {
				for range 5 {
					drop("")
				}
			})
		}
		wg.Go(func() { drop("{}") })
		wg.Wait()
		if kept, err := os.ReadFile(name); string(kept) != "{}\n" {
			t.Fatalf("round %d: the file holds %q (%v), want the line that was on disk", round, kept, err)
		}
	}
}
