package main

import (
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"
	"unicode"

	urfave "github.com/urfave/cli/v3"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/internal/setting"
)

// misuse finds what the parser refused in a command line, nil if nothing. The parser's own text quotes a URL with its password.
func misuse(root *urfave.Command, args []string) error {
	at := root
	for rest := args[1:]; len(rest) > 0; rest = rest[1:] {
		arg := strings.TrimSpace(rest[0])
		name, value, has := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		switch {
		case arg == "--" || isNoFlag(arg):
			return misusedVariable(at)
		case !strings.HasPrefix(arg, "-") || arg == "-":
			if sub := at.Command(arg); sub != nil {
				at = sub
			}
			continue
		}
		flag := flagNamed(at, name)
		if flag == nil {
			return cli.Misusef("there is no flag %s (see %s --help)", dashed(shownArgument(name)), commandLine(root, at))
		}
		if _, is := flag.(*urfave.BoolFlag); is && value == "" {
			continue
		} else if !is && !has && len(rest) == 1 {
			return cli.Misusef("%s has no value (see %s --help)", dashed(name), commandLine(root, at))
		} else if !is && !has {
			rest = rest[1:]
			value = rest[0]
		}
		if err := refusedValue(flag, dashed(name), value); err != nil {
			return cli.Misusef("%w (see %s --help)", err, commandLine(root, at))
		}
	}
	return misusedVariable(at)
}

// isNoFlag reports whether the parser looks for no flags from an argument on: -1 is no flag.
func isNoFlag(arg string) bool {
	after, dash := strings.CutPrefix(arg, "-")
	return dash && after != "" && after[0] != '-' && !unicode.IsLetter([]rune(after)[0])
}

func flagNamed(c *urfave.Command, name string) urfave.Flag {
	for _, f := range c.Flags {
		if slices.Contains(f.Names(), name) {
			return f
		}
	}
	return nil
}

// commandLine returns the name of a command after those of its parents, which only the parser knows.
func commandLine(root, of *urfave.Command) string {
	if root == of {
		return root.Name
	}
	for _, sub := range root.Commands {
		if line := commandLine(sub, of); line != "" {
			return root.Name + " " + line
		}
	}
	return ""
}

// misusedVariable finds an environment variable that a flag of the command cannot take.
func misusedVariable(c *urfave.Command) error {
	for _, f := range c.Flags {
		documented, ok := f.(urfave.DocGenerationFlag)
		if !ok {
			continue
		}
		for _, name := range documented.GetEnvVars() {
			value := os.Getenv(name)
			if value == "" {
				continue
			}
			if err := refusedValue(f, "the environment variable "+name, value); err != nil {
				return cli.Misuse(err)
			}
			break
		}
	}
	return nil
}

// refusedValue returns a *setting.FieldError if a flag cannot take a value; called is the flag's name in it.
func refusedValue(f urfave.Flag, called, value string) error {
	err := f.Set(called, value)
	if err == nil {
		return nil
	}
	want := "a text"
	switch f.(type) {
	case *urfave.IntFlag:
		want = "a whole number"
	case *urfave.FloatFlag:
		want = "a number"
	case *urfave.BoolFlag:
		want = "true or false"
	case *urfave.DurationFlag:
		want = "a time like 500ms, 30s or 5m"
	case *ageFlag:
		want = "a time like 30s, 12h or 7d"
	}
	if errors.Is(err, strconv.ErrRange) {
		want += " within the flag's range"
	}
	return setting.New(called, shownArgument(value), want)
}

// dashed is a flag as it is written.
func dashed(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}

// shownArgument is an argument as it may be quoted: a URL in the wrong place may hold a password.
func shownArgument(arg string) string {
	if strings.Contains(arg, "://") {
		return setting.RedactURL(arg)
	}
	return arg
}
