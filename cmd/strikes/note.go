package main

import (
	"os"
	"os/user"
	"strings"

	"github.com/spf13/cobra"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/counter"
)

// noteOptions are the flags of a verb that leaves a note.
type noteOptions struct{ reason, by string }

func (o *noteOptions) addNote(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.reason, "reason", "", "why, as `TEXT`, kept with the change; required")
	f.StringVar(&o.by, "by", "", "who does it, as `NAME`, kept with the reason")
	cli.FromEnv(f, "by")
	cli.DefaultText(f, "by", "this user at this host")
}

func (o *noteOptions) note() (counter.Note, error) {
	n := counter.Note{By: o.by, Why: strings.TrimSpace(o.reason)}
	if n.Why == "" {
		return n, cli.Misusef("--reason is missing; say why, it is kept with the change")
	}
	if n.By == "" {
		n.By = thisUser()
	}
	return n, nil
}

func thisUser() string {
	name, host := "unknown", "unknown"
	if u, err := user.Current(); err == nil && u.Username != "" {
		name = u.Username
	}
	if h, err := os.Hostname(); err == nil {
		host = h
	}
	return name + "@" + host
}
