package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/strikesmq/strikes/cmd/strikes/internal/jsonl"
	"github.com/strikesmq/strikes/cmd/strikes/internal/term"
	"github.com/strikesmq/strikes/deadletter"
)

const (
	// mostGroups bounds what is kept of a queue in which every reason differs.
	mostGroups = 1000
	// otherReasons is the group of those beyond.
	otherReasons = "(other reasons)"
)

// deadGroup is what died of one reason.
type deadGroup struct {
	Kind   string    `json:"kind"`
	Reason string    `json:"reason"` // its first line
	Count  int       `json:"count"`
	Oldest time.Time `json:"oldest,omitzero"`
	Newest time.Time `json:"newest,omitzero"`
}

// deadGroups counts dead letters by kind and reason.
type deadGroups struct {
	w    io.Writer
	json bool
	most int // of them to print, those with the most letters; 0: all
	all  map[[2]string]*deadGroup
}

func (g *deadGroups) row(l *deadletter.Message) error {
	reason, _, _ := strings.Cut(strings.TrimSpace(l.Reason()), "\n")
	key := [2]string{string(l.Kind()), reason}
	if g.all == nil {
		g.all = map[[2]string]*deadGroup{}
	}
	if g.all[key] == nil && len(g.all) >= mostGroups {
		key = [2]string{"", otherReasons}
	}
	if g.all[key] == nil {
		g.all[key] = &deadGroup{Kind: key[0], Reason: key[1]}
	}
	g.all[key].add(l.Origin.Time)
	return nil
}

func (g *deadGroup) add(died time.Time) {
	g.Count++
	if died.IsZero() {
		return
	}
	died = died.UTC()
	if g.Oldest.IsZero() || died.Before(g.Oldest) {
		g.Oldest = died
	}
	if died.After(g.Newest) {
		g.Newest = died
	}
}

func (g *deadGroups) flush() error {
	var sorted []*deadGroup
	for _, group := range g.all {
		sorted = append(sorted, group)
	}
	slices.SortFunc(sorted, func(a, b *deadGroup) int {
		return cmp.Or(b.Count-a.Count, strings.Compare(a.Reason, b.Reason), strings.Compare(a.Kind, b.Kind))
	})
	if g.most > 0 {
		sorted = sorted[:min(g.most, len(sorted))]
	}
	if g.json {
		out := jsonl.NewEncoder(g.w)
		for _, group := range sorted {
			if err := out.Encode(group); err != nil {
				return err
			}
		}
		return nil
	}
	if len(sorted) == 0 {
		return nil
	}
	table := term.NewTable(g.w)
	fmt.Fprintln(table, "COUNT\tKIND\tOLDEST\tNEWEST\tREASON")
	now := time.Now()
	for _, group := range sorted {
		fmt.Fprintf(table, "%d\t%s\t%s\t%s\t%s\n", group.Count, group.Kind, since(group.Oldest, now), since(group.Newest, now), term.Brief(group.Reason, 80))
	}
	return table.Flush()
}
