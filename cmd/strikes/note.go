package main

import (
	"fmt"
	"os"
	"os/user"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/strikesmq/strikes/counter"
)

// noteFlags are those of a verb that leaves a note.
func noteFlags(more ...cli.Flag) []cli.Flag {
	return append([]cli.Flag{
		&cli.StringFlag{Name: "reason", Usage: "why, kept for those who look at it later: `TEXT`; needed"},
		&cli.StringFlag{Name: "by", Sources: env("by"), DefaultText: "this user at this host", Usage: "who does it: `NAME`, kept with the reason"},
	}, more...)
}

func noteOf(c *cli.Command) (counter.Note, error) {
	n := counter.Note{By: c.String("by"), Why: strings.TrimSpace(c.String("reason"))}
	if n.Why == "" {
		return n, usagef("%s: --reason is missing: say why, for those who look at it later", c.FullName())
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

// plural is a number of things.
func plural(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	if stem, y := strings.CutSuffix(thing, "y"); y {
		thing = stem + "ie"
	} else if strings.HasSuffix(thing, "sh") {
		thing += "e"
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
