package cli

import (
	"context"

	"github.com/strikesmq/strikes/cmd/strikes/internal/term"
)

// Confirm returns nil if a destructive step may be taken: yes is true, or the user at the terminal agrees. Without a
// terminal it points at --dry-run if the command has it.
func (s Streams) Confirm(ctx context.Context, yes, dryRun bool, question string) error {
	switch {
	case yes:
		return nil
	case !term.IsTerminal(s.In) || !term.IsTerminal(s.Err):
		hint := ""
		if dryRun {
			hint = " (--dry-run shows what would be done)"
		}
		return Misusef("nothing is done without --yes, because there is no terminal to ask at%s", hint)
	}
	err := term.Confirm(ctx, s.In, s.Err, question)
	if ctx.Err() == nil && err != nil {
		return Misuse(err)
	}
	return err
}
