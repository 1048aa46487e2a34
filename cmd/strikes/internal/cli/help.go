package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	xterm "golang.org/x/term"
)

// noting passes on what is written, and notes the first error: cobra drops it.
type noting struct {
	to  io.Writer
	err error
}

func (n *noting) Write(p []byte) (int, error) {
	done, err := n.to.Write(p)
	n.err = cmp.Or(n.err, err)
	return done, err
}

// helpCommand belongs to the root only: a queue may be called help.
func helpCommand() *cobra.Command {
	var cmd *cobra.Command
	cmd = New("help [COMMAND…]", "show the help of a command, as its --help does",
		"", func(_ context.Context, names []string) error {
			of := cmd.Root()
			for _, name := range names {
				sub := subcommand(of, name)
				if sub == nil {
					return unknownCommand(of, name)
				}
				of = sub
			}
			of.InitDefaultHelpFlag()
			return of.Help()
		})
	cmd.Example = "  strikes help consume\n  strikes help dead replay"
	return cmd
}

func subcommand(of *cobra.Command, name string) *cobra.Command {
	for _, sub := range of.Commands() {
		if sub.Name() == name {
			return sub
		}
	}
	return nil
}

// help is the text of --help for a width.
func help(cmd *cobra.Command, width int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\nUsage:\n  %s\n", wrapped(cmd.CommandPath()+" - "+cmd.Short, width), usageLine(cmd))
	if cmd.Example != "" {
		fmt.Fprintf(&b, "\nExamples:\n%s\n", cmd.Example)
	}
	if cmd.Long != "" {
		fmt.Fprintf(&b, "\n%s\n", wrapped(cmd.Long, width))
	}
	if cmd.HasAvailableSubCommands() {
		b.WriteString("\nCommands:\n")
	}
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			fmt.Fprintf(&b, "  %-11s %s\n", sub.Name(), strings.ReplaceAll(wrapped(sub.Short, width-14), "\n",
				"\n"+strings.Repeat(" ", 14)))
		}
	}
	if cmd.HasAvailableLocalFlags() {
		cmd.Flags().Lookup("help").Usage = "show this help"
		own, servers := flagGroups(cmd.LocalFlags())
		fmt.Fprintf(&b, "\nFlags:\n%s", own.FlagUsagesWrapped(width))
		if servers.HasFlags() {
			fmt.Fprintf(&b, "\nServers:\n%s", servers.FlagUsagesWrapped(width))
		}
	}
	return b.String()
}

// serverFlag is the annotation of a flag that many commands share, because it names a server or what it keeps.
const serverFlag = "strikes_server"

// Server lists flags under a heading of their own in the help.
func Server(flags *pflag.FlagSet, names ...string) {
	for _, name := range names {
		_ = flags.SetAnnotation(name, serverFlag, nil) // the flag is there
	}
}

// flagGroups separates a command's own flags from those of the servers.
func flagGroups(all *pflag.FlagSet) (own, servers *pflag.FlagSet) {
	own, servers = new(pflag.FlagSet), new(pflag.FlagSet)
	own.SortFlags, servers.SortFlags = false, false
	all.SortFlags = false
	all.VisitAll(func(f *pflag.Flag) {
		if _, is := f.Annotations[serverFlag]; is {
			servers.AddFlag(f)
		} else {
			own.AddFlag(f)
		}
	})
	return own, servers
}

func usageLine(cmd *cobra.Command) string {
	line := cmd.UseLine()
	switch {
	case cmd.HasAvailableSubCommands():
		return cmd.CommandPath() + " COMMAND [flags]"
	case !strings.Contains(line, "[flags]"):
		line += " [flags]"
	}
	return line
}

const (
	usualWidth = 80  // for a pager, whose width is unknown
	mostWidth  = 110 // keeps lines of help readable
)

// helpWidth is that of the terminal, if it is one.
func helpWidth(out io.Writer) int {
	if f, ok := out.(*os.File); ok {
		if width, _, err := xterm.GetSize(int(f.Fd())); err == nil && width > 40 {
			return min(width, mostWidth)
		}
	}
	return usualWidth
}

// wrapped fills the paragraphs of a text to a width. An indented line stays as it is.
func wrapped(text string, width int) string {
	var lines []string
	column := width // of the last line; a full one takes no word more
	for _, line := range strings.Split(text, "\n") {
		if line == "" || strings.HasPrefix(line, " ") {
			lines, column = append(lines, line), width
			continue
		}
		for _, word := range strings.Fields(line) {
			size := len([]rune(word))
			if column+1+size > width {
				lines, column = append(lines, word), size
				continue
			}
			lines[len(lines)-1] += " " + word
			column += 1 + size
		}
	}
	return strings.Join(lines, "\n")
}
