package main

import (
	"bufio"
	"fmt"
	"strings"
)

// confirm returns nil if a destructive step may be taken: --yes was given, or somebody at a terminal says so.
func (a *app) confirm(yes bool, question string) error {
	if yes {
		return nil
	}
	if !isTerminal(a.stdin) || !isTerminal(a.stderr) {
		return usagef("nothing is done without --yes, as there is no terminal to ask at (--dry-run shows what would be done)")
	}
	fmt.Fprintf(a.stderr, "%s [y/N] ", question)
	answer, _ := bufio.NewReader(a.stdin).ReadString('\n') // the end of the input is a no
	if answer = strings.ToLower(strings.TrimSpace(answer)); answer != "y" && answer != "yes" {
		return usagef("nothing is done")
	}
	return nil
}
