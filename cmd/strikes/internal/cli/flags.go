package cli

import (
	"errors"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/strikesmq/strikes/cmd/strikes/internal/term"
	"github.com/strikesmq/strikes/internal/setting"
	"github.com/strikesmq/strikes/internal/similar"
)

// wanted says what the value of a type of flag is.
var wanted = map[string]string{
	"int": "a whole number", "float64": "a number", "bool": "true or false",
	"duration": "a time like 500ms, 30s or 5m", "age": "a time like 30s, 12h or 7d",
}

// JSON adds the flag --json.
func JSON(flags *pflag.FlagSet, p *bool, what string) { flags.BoolVar(p, "json", false, what) }

// Age adds a flag for a time that may be given in days.
func Age(flags *pflag.FlagSet, p *time.Duration, name, usage string) {
	flags.Var((*age)(p), name, usage)
}

type age time.Duration

func (a *age) Set(s string) error {
	d, err := term.ParseAge(s)
	*a = age(d)
	return err
}

func (a *age) String() string {
	if *a == 0 {
		return ""
	}
	return time.Duration(*a).String()
}

func (*age) Type() string { return "age" }

// Refused is the error for the value of a flag.
func Refused(flag string, value any, want string) error {
	return Misuse(setting.New("--"+flag, value, want))
}

// flagMisuse says what pflag refused in words of the command line, without a password.
func flagMisuse(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	var missing *pflag.ValueRequiredError
	var invalid *pflag.InvalidValueError
	switch {
	case errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() != "":
		err = Misusef("there is no flag -%s%s", unknown.GetSpecifiedName(), afterDashes(unknown.GetSpecifiedName()))
	case errors.As(err, &unknown):
		name := unknown.GetSpecifiedName()
		err = Misusef("there is no flag --%s%s", shownArgument(name), similar.Question(name, flagNames(cmd), "--"))
	case errors.As(err, &missing):
		err = Misusef("%s has no value", dashed(missing.GetSpecifiedName()))
	case errors.As(err, &invalid):
		err = refusedValue(invalid.GetFlag(), "--"+invalid.GetFlag().Name, invalid.GetValue(), invalid.Unwrap())
	default:
		err = Misusef("a flag cannot be read")
	}
	return seeHelp(cmd, err)
}

// afterDashes is a hint for a negative number, which is read as a flag.
func afterDashes(name string) string {
	if strings.Trim(name, "0123456789") == "" {
		return "; put an argument that begins with - after --"
	}
	return ""
}

func flagNames(cmd *cobra.Command) (names []string) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	return names
}

func refusedValue(flag *pflag.Flag, called, value string, err error) error {
	want := wanted[flag.Value.Type()]
	if want == "" {
		want = "a text"
	}
	if errors.Is(err, strconv.ErrRange) {
		want += " within the flag's range"
	}
	return setting.New(called, shownArgument(value), want)
}

// inFlags has the command's words for settings that the library names in its texts.
var inFlags = strings.NewReplacer(
	"(Management)", "(--management-url)", "(AllowDrop)", "(--allow-drop)",
	"set HoldLanes and Lane to", "set --hold-lanes and --lane-header to",
	"topology.Declare with DelayQueues", "strikes declare --delay-queues QUEUE",
)

var raised = regexp.MustCompile(`(declare it again with x-delivery-limit=(\d+))( \(strikes declare [^)]*\))?`)

// InFlags returns a text of the library in which the settings to change are flags. It changes nothing in such a text.
func InFlags(text string) string {
	return raised.ReplaceAllString(inFlags.Replace(text), "$1 (strikes declare --delivery-limit $2)")
}

// dashed is a flag as it is written.
func dashed(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}

// OneOf has the shell complete the value of a flag.
func OneOf(cmd *cobra.Command, flag string, values ...string) {
	// the flag is there
	_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}
