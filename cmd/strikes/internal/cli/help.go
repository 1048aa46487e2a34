package cli

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// usage is the template of the help: the purpose of a command and its examples come first. It is 80 columns wide,
// because help is read through pagers, too.
const usage = `{{.CommandPath}} - {{.Short}}
{{- if .Runnable}}

Usage:
  {{if .HasAvailableSubCommands}}{{.CommandPath}} COMMAND{{else}}{{.UseLine}}{{end}}
{{- end}}
{{- with .Example}}

Examples:
{{.}}
{{- end}}
{{- with .Long}}

{{trimTrailingWhitespaces .}}
{{- end}}
{{- if .HasAvailableSubCommands}}

Commands:
{{- range .Commands}}{{if .IsAvailableCommand}}
  {{rpad .Name 12}} {{.Short}}
{{- end}}{{end}}
{{- end}}
{{- if .HasHelpSubCommands}}

Topics (strikes help TOPIC):
{{- range .Commands}}{{if .IsAdditionalHelpTopicCommand}}
  {{rpad .Name 12}} {{.Short}}
{{- end}}{{end}}
{{- end}}
{{- with flags .}}

Flags:
{{trimTrailingWhitespaces .}}
{{- end}}
{{- with servers .}}

Servers: {{.}}
  (strikes help servers says what they are)
{{- end}}
`

func init() { // the settings are cobra's, for all commands of the process
	cobra.EnableCommandSorting = false
	cobra.AddTemplateFunc("flags", flags)
	cobra.AddTemplateFunc("servers", servers)
}

// serverFlag is the annotation of a flag that many commands share, because it names a server or a part of its data.
const serverFlag = "strikes_server"

// Server leaves a flag to the help topic about servers.
func Server(flags *pflag.FlagSet, name string) {
	_ = flags.SetAnnotation(name, serverFlag, nil) // the flag is there
}

// flags are a command's own flags; of a help topic, those of the servers.
func flags(cmd *cobra.Command) string {
	shown := new(pflag.FlagSet)
	shown.SortFlags = false
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if _, server := f.Annotations[serverFlag]; server != cmd.Runnable() {
			shown.AddFlag(f)
		}
	})
	return shown.FlagUsagesWrapped(80)
}

// servers names the flags of a command that the help topic about servers explains.
func servers(cmd *cobra.Command) string {
	var names []string
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if _, server := f.Annotations[serverFlag]; server && cmd.Runnable() {
			names = append(names, "--"+f.Name)
		}
	})
	return strings.Join(names, " ")
}
