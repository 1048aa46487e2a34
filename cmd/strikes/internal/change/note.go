package change

import (
	"os"
	"os/user"
	"strings"

	"github.com/spf13/cobra"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/counter"
)

// Note are the flags of a verb that leaves a note.
type Note struct{ Why, By string }

// AddNote adds --why and --by.
func (n *Note) AddNote(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&n.Why, "why", "", "why you do it, as `TEXT`; kept with the change, and required")
	f.StringVar(&n.By, "by", "", "who does it, as `NAME`; kept with the change")
	cli.FromEnv(f, "by")
	cli.DefaultText(f, "by", "this user at this host")
}

// AddAudit adds --why and --by to a verb whose note is kept in the audit log only, and may lack the reason.
func (n *Note) AddAudit(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&n.Why, "why", "", "why you do it, as `TEXT`; kept in the audit log")
	f.StringVar(&n.By, "by", "", "who does it, as `NAME`; kept in the audit log")
	cli.FromEnv(f, "by")
	cli.DefaultText(f, "by", "this user at this host")
}

// Note returns the note, or an error if it gives no reason.
func (n *Note) Note() (counter.Note, error) {
	note := n.Given()
	if note.Why == "" {
		return note, cli.Misusef("--why is missing; say why you do it, the text is kept with the change")
	}
	return note, nil
}

// Given returns the note, which may lack a reason.
func (n *Note) Given() counter.Note {
	note := counter.Note{By: n.By, Why: strings.TrimSpace(n.Why)}
	if note.By == "" {
		note.By = ThisUser()
	}
	return note
}

// ThisUser is this user at this host.
func ThisUser() string {
	name, host := "unknown", "unknown"
	if u, err := user.Current(); err == nil && u.Username != "" {
		name = u.Username
	}
	if h, err := os.Hostname(); err == nil {
		host = h
	}
	return name + "@" + host
}
