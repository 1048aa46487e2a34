package main

import (
	"os"
	"os/user"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/term"
	"github.com/strikesmq/strikes/counter"
)

// noteOptions are the flags of a verb that leaves a note.
type noteOptions struct{ reason, by string }

func (o *noteOptions) addNote(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.reason, "reason", "", "why, as `TEXT`, kept for those who look at it later; required")
	f.StringVar(&o.by, "by", "", "who does it, as `NAME`, kept with the reason")
	cli.FromEnv(f, "by")
	cli.DefaultText(f, "by", "this user at this host")
}

func (o *noteOptions) note() (counter.Note, error) {
	n := counter.Note{By: o.by, Why: strings.TrimSpace(o.reason)}
	if n.Why == "" {
		return n, cli.Misusef("--reason is missing: say why, for those who look at it later")
	}
	if n.By == "" {
		n.By = thisUser()
	}
	return n, nil
}

func thisUser() string {
	name, host := "somebody", "an unknown host"
	if u, err := user.Current(); err == nil && u.Username != "" {
		name = u.Username
	}
	if h, err := os.Hostname(); err == nil {
		host = h
	}
	return name + "@" + host
}

// note is a counter.Note as --json prints it.
type note struct {
	By     string    `json:"by,omitempty"`
	At     time.Time `json:"at,omitzero"`
	Reason string    `json:"reason"`
}

func noteJSON(n counter.Note) note { return note{By: n.By, At: n.At, Reason: n.Why} }

// String says when, by whom and why, to be written behind what was done.
func (n note) String() string {
	text := ""
	if !n.At.IsZero() {
		text += " " + n.At.Format(time.RFC3339)
	}
	if n.By != "" {
		text += " by " + term.Brief(n.By, 60)
	}
	if n.Reason != "" {
		text += ": " + term.Brief(n.Reason, 200)
	}
	return text
}
