package cli

import (
	"fmt"

	"github.com/spf13/cobra"
)

// loadingCompletions is how each shell loads its script: for the session, then for every later one.
var loadingCompletions = map[string][2]string{
	"bash": {"source <(strikes completion bash)", "strikes completion bash > /etc/bash_completion.d/strikes"},
	"zsh":  {"source <(strikes completion zsh)", `strikes completion zsh > "${fpath[1]}/_strikes"`},
	"fish": {"strikes completion fish | source",
		"strikes completion fish > ~/.config/fish/completions/strikes.fish"},
	"powershell": {"strikes completion powershell | Out-String | Invoke-Expression",
		"strikes completion powershell >> $PROFILE"},
}

// addCompletion adds Cobra's command that prints completion scripts, which keeps the stdout that the root has by now.
func addCompletion(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	completion := subcommand(root, "completion")
	if completion == nil {
		return
	}
	completion.Short, completion.Long = "print a completion script for a shell", "The script completes commands, flags, "+
		"the values of flags, and names of queues, which it asks the broker's management API for."
	completion.Example = "  " + loadingCompletions["bash"][0]
	completion.RunE, completion.Args = runGroup, cobra.ArbitraryArgs
	for _, shell := range completion.Commands() {
		load := loadingCompletions[shell.Name()]
		shell.Short = "print a completion script for " + shell.Name()
		shell.Long, shell.Example = "", fmt.Sprintf("  # for this session\n  %s\n  # for all later ones\n  %s", load[0],
			load[1])
		if shell.Name() == "bash" {
			shell.Long = "The script needs the package bash-completion."
		}
		if flag := shell.Flags().Lookup("no-descriptions"); flag != nil {
			flag.Usage = "complete without descriptions"
		}
	}
}
