package main

import (
	"os"
	"os/user"
	"strings"
	"time"

	urfave "github.com/urfave/cli/v3"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/term"
	"github.com/strikesmq/strikes/counter"
)

// noteFlags are those of a verb that leaves a note.
func noteFlags(more ...urfave.Flag) []urfave.Flag {
	return append([]urfave.Flag{
		&urfave.StringFlag{Name: "reason", Usage: "why, kept for those who look at it later: `TEXT`; needed"},
		&urfave.StringFlag{Name: "by", Sources: env("by"), DefaultText: "this user at this host", Usage: "who does it: `NAME`, kept with the reason"},
	}, more...)
}

func noteOf(c *urfave.Command) (counter.Note, error) {
	n := counter.Note{By: c.String("by"), Why: strings.TrimSpace(c.String("reason"))}
	if n.Why == "" {
		return n, cli.Misusef("%s: --reason is missing: say why, for those who look at it later", c.FullName())
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
