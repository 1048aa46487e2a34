package main

import (
	"os"
	"os/user"
	"strings"

	urfave "github.com/urfave/cli/v3"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
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
	name, host := "unknown", "unknown"
	if u, err := user.Current(); err == nil && u.Username != "" {
		name = u.Username
	}
	if h, err := os.Hostname(); err == nil {
		host = h
	}
	return name + "@" + host
}
