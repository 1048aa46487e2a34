package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/strikesmq/strikes/deadletter"
)

// sought are the ids that were asked for by name, and those of them that were found.
type sought struct {
	ids   []string
	found map[string]bool
}

func seek(ids []string) *sought { return &sought{ids: ids, found: map[string]bool{}} }

func (s *sought) saw(l *deadletter.Letter) {
	if len(s.ids) > 0 {
		s.found[l.ID] = true
	}
}

// missingShown is how many of the missing are named.
const missingShown = 20

// missing is an error that names the ids that were not found, unless none was: the caller has another for that.
func (s *sought) missing(queue string) error {
	var names []string
	for _, id := range s.ids {
		if !s.found[id] && !slices.Contains(names, shown(id)) {
			names = append(names, shown(id))
		}
	}
	if len(names) == 0 || len(s.found) == 0 {
		return nil
	}
	more := ""
	if n := len(names) - missingShown; n > 0 {
		names, more = names[:missingShown], fmt.Sprintf(" and %d more", n)
	}
	return coded{fmt.Errorf("no such dead letters in queue %s: %s%s; the others were found", shown(queue), strings.Join(names, " "), more), exitNothing}
}

// also is err, with what is missing after it, and with the exit code of err if that is one.
func (s *sought) also(err error, queue string) error {
	missing := s.missing(queue)
	switch {
	case missing == nil:
		return err
	case err == nil:
		return missing
	}
	return coded{fmt.Errorf("%w; %w", err, missing), exitCode(err)}
}
