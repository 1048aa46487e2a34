package connect

import (
	"context"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/internal/broker"
)

// completeTimeout bounds how long a shell waits for names after a tab.
const completeTimeout = time.Second

// CompleteQueues has a shell complete the argument QUEUE of a command and its subcommands, with names from the
// management API.
func CompleteQueues(cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		CompleteQueues(sub)
	}
	operands := strings.Fields(cmd.Use)[1:]
	if len(operands) == 0 || !strings.HasPrefix(strings.Trim(operands[0], "[]"), "QUEUE") ||
		cmd.Flags().Lookup("amqp-url") == nil {
		return
	}
	every, files := strings.Contains(operands[0], "…"), cli.TakesFiles(cmd)
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		switch {
		case len(args) == 0 || every:
			return queueNames(cmd, args, begun), cobra.ShellCompDirectiveNoFileComp
		case files:
			return nil, cobra.ShellCompDirectiveDefault
		}
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
}

// queueNames returns the names that begin so, without those that were given. It returns none if the API is away or
// slow, because a shell shows an error in the middle of the line that is being typed.
func queueNames(cmd *cobra.Command, given []string, begun string) []string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(cmd.Context()), completeTimeout)
	defer cancel()
	if err := cli.SetFromEnvironment(cmd.Flags()); err != nil {
		return nil
	}
	flag := func(name string) string {
		if f := cmd.Flags().Lookup(name); f != nil {
			return f.Value.String()
		}
		return ""
	}
	b, err := NewBroker(flag("amqp-url"), "")
	if err != nil {
		return nil
	}
	vhost := b.VHost
	if named := flag("vhost"); named != "" {
		vhost = named
	}
	client, err := b.guessing()
	if err != nil {
		return nil
	}
	at := usualManagement(b.URL)
	if named := flag("management-url"); named != "" {
		at, client = []string{named}, nil
	}
	for _, base := range at {
		api, err := broker.NewAPI(base, client)
		if err != nil {
			return nil
		}
		names, err := api.Names(ctx, vhost, begun)
		if err == nil {
			return slices.DeleteFunc(names, func(name string) bool {
				return strings.HasPrefix(name, "-") || strings.ContainsFunc(name, unicode.IsControl) || slices.Contains(given, name)
			})
		}
	}
	return nil
}
