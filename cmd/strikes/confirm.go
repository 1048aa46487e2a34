package main

import (
	"bufio"
	"context"
	"fmt"
	"strings"
)

// confirm returns nil if a destructive step may be taken: --yes was given, or somebody at a terminal says so. Once ctx is done
// nobody is waited for: the read of an answer is left behind, for nothing ends it, and the process is about to end.
func (a *app) confirm(ctx context.Context, yes bool, question string) error {
	if yes {
		return nil
	}
	if !isTerminal(a.stdin) || !isTerminal(a.stderr) {
		return usagef("nothing is done without --yes, as there is no terminal to ask at (--dry-run shows what would be done)")
	}
	fmt.Fprintf(a.stderr, "%s [y/N] ", question)
	answers := make(chan string, 1)
	go func() {
		answer, _ := bufio.NewReader(a.stdin).ReadString('\n') // the end of the input is a no
		answers <- strings.ToLower(strings.TrimSpace(answer))
	}()
	select {
	case answer := <-answers:
		if answer == "y" || answer == "yes" {
			return nil
		}
		return usagef("nothing is done")
	case <-ctx.Done():
		fmt.Fprintln(a.stderr)
		return fmt.Errorf("nothing is done: %w", ctx.Err())
	}
}
