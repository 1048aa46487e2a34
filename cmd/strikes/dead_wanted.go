package main

import (
	"errors"
	"fmt"
	"slices"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/term"
	"github.com/strikesmq/strikes/deadletter"
)

// wanted are the ids and fingerprints that were asked for by name, and those of them that were found.
type wanted struct {
	ids   []string
	group string          // key
	found map[string]bool // by id and fingerprint of what was seen
	any   bool
	all   bool // nothing was asked for in particular
}

func seek(f deadletter.Filter) *wanted {
	return &wanted{ids: f.IDs, group: f.Group, found: map[string]bool{}, all: f.Everything()}
}

func (s *wanted) saw(l *deadletter.Message) {
	if len(s.ids) > 0 {
		s.any = true
		s.found[l.ID], s.found[l.Fingerprint] = true, true
	}
}

// names are the ids that were not found, the first of them, as a list that follows a colon; empty if there are none.
func (s *wanted) names() string {
	var missing []string
	for _, id := range s.ids {
		if !s.found[id] && !slices.Contains(missing, id) {
			missing = append(missing, id)
		}
	}
	if len(missing) == 0 {
		return ""
	}
	return ": " + term.Names(missing)
}

// none is the error for no dead letters at all.
func (s *wanted) none(queue string, empty bool) error {
	text := fmt.Sprintf("no dead letter in queue %s matches%s", term.Shown(queue), s.names())
	if s.all || empty {
		text = fmt.Sprintf("dead-letter queue %s is empty", term.Shown(queue))
	}
	return cli.WithCode(errors.New(text), cli.ExitNothing)
}

// missing returns an error that names the ids that were not found; nil if none was found, which none reports.
func (s *wanted) missing(queue string) error {
	if names := s.names(); names != "" && s.any {
		return cli.WithCode(fmt.Errorf("not found in queue %s%s; the others were found", term.Shown(queue), names),
			cli.ExitNothing)
	}
	return nil
}

// also returns err followed by what is missing, with the exit code of err if it has one.
func (s *wanted) also(err error, queue string) error {
	missing := s.missing(queue)
	switch {
	case missing == nil:
		return err
	case err == nil:
		return missing
	}
	return cli.WithCode(fmt.Errorf("%w; %w", err, missing), cli.ExitCode(err))
}
