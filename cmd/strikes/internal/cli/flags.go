package cli

import (
	"cmp"
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/strikesmq/strikes/internal/setting"
)

var aliases = map[string]pflag.NormalizedName{"dlq": "dead-letter-queue"}

// wanted describes the values of a flag by its type. A flag that Age adds has the type func.
var wanted = map[string]string{
	"int": "a whole number", "float64": "a number", "bool": "true or false",
	"duration": "a time like 500ms, 30s or 5m", "func": "a time like 30s, 12h or 7d",
}

// JSON adds the flag --json.
func JSON(flags *pflag.FlagSet, p *bool, what string) { flags.BoolVar(p, "json", false, what) }

// Age adds a flag for a time that may be given in days.
func Age(flags *pflag.FlagSet, p *time.Duration, name, usage string) {
	flags.Func(name, usage, func(s string) (err error) {
		*p, err = setting.ParseAge(s)
		return err
	})
}

// OneOf adds a flag that takes one of some values, which the shell completes. Its default is *p, which may be another.
func OneOf[T ~string](cmd *cobra.Command, p *T, name, usage string, values ...T) {
	c := &choice[T]{value: p}
	for _, v := range values {
		c.of = append(c.of, string(v))
	}
	cmd.Flags().Var(c, name, usage)
	_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(c.of, // the flag is there
		cobra.ShellCompDirectiveNoFileComp))
}

type choice[T ~string] struct {
	value *T
	of    []string
}

func (c *choice[T]) Set(s string) error {
	if !slices.Contains(c.of, s) {
		return errors.New("another value")
	}
	*c.value = T(s)
	return nil
}

func (c *choice[T]) String() string { return string(*c.value) }
func (*choice[T]) Type() string     { return "string" }

func (c *choice[T]) wanted() string {
	if len(c.of) == 2 {
		return strings.Join(c.of, " or ")
	}
	return "one of " + strings.Join(c.of, ", ")
}

// DefaultText shows a text in place of a flag's default, which may be derived or hold a password.
func DefaultText(flags *pflag.FlagSet, name, text string) {
	flag := flags.Lookup(name)
	flag.DefValue = map[string]string{"int": "0"}[flag.Value.Type()] // help prints no zero
	flag.Usage += " (default " + text + ")"
}

// environment is the annotation of a flag that names its environment variables.
const environment = "strikes_environment"

// setBy is the annotation of a flag that names the environment variable which set it.
const setBy = "strikes_set_by"

// FromEnv lets flags be set by environment variables of their names, such as STRIKES_MAX_RETRIES.
func FromEnv(flags *pflag.FlagSet, names ...string) {
	for _, name := range names {
		FromEnvOr(flags, name)
	}
}

// FromEnvOr lets a flag be set by the environment variable of its name, else by others.
func FromEnvOr(flags *pflag.FlagSet, name string, others ...string) {
	flag := flags.Lookup(name)
	variables := append([]string{"STRIKES_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))}, others...)
	_ = flags.SetAnnotation(name, environment, variables) // the flag is there
	flag.Usage += " (env " + strings.Join(variables, ", ") + ")"
}

// Variables are the environment variables that may set a flag.
func Variables(flag *pflag.Flag) []string { return flag.Annotations[environment] }

// SetFromEnvironment sets the flags that the command line does not. An empty variable counts as unset, as compose
// files and shells leave it.
func SetFromEnvironment(flags *pflag.FlagSet) (err error) {
	flags.VisitAll(func(flag *pflag.Flag) {
		if flag.Changed || err != nil {
			return
		}
		for _, name := range Variables(flag) {
			value := os.Getenv(name)
			if value == "" {
				continue
			}
			_ = flags.SetAnnotation(flag.Name, setBy, []string{name}) // the flag is there
			if refused := flag.Value.Set(value); refused != nil {
				err = refusedValue(flag, Called(flags, flag.Name), value, refused)
			}
			flag.Changed = true
			return
		}
	})
	return err
}

// Called names the source of a flag's value for an error: the flag, or the environment variable that set it.
func Called(flags *pflag.FlagSet, name string) string {
	if by := flags.Lookup(name).Annotations[setBy]; len(by) > 0 {
		return "the environment variable " + by[0]
	}
	return "--" + name
}

// Refused is the error for the value of a flag.
func Refused(flag string, value any, want string) error {
	return Misuse(setting.New("--"+flag, value, want))
}

// flagMisuse returns an error of pflag in words of the command line, without a password.
func flagMisuse(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	var missing *pflag.ValueRequiredError
	var invalid *pflag.InvalidValueError
	switch {
	case errors.As(err, &unknown) && cmd.HasSubCommands() && cmd.Flags().NArg() > 0: // the flag is of a misspelt command
		return refuseUnknown(cmd, cmd.Flags().Args())
	case errors.As(err, &unknown):
		err = Misusef("there is no flag %s", instead(cmd, unknown))
	case errors.As(err, &missing):
		err = Misusef("%s has no value", dashed(missing.GetSpecifiedName()))
	case errors.As(err, &invalid):
		err = refusedValue(invalid.GetFlag(), "--"+invalid.GetFlag().Name, invalid.GetValue(), invalid.Unwrap())
	default:
		err = Misusef("a flag cannot be read")
	}
	return Misusef("%w (see %s --help)", err, cmd.CommandPath())
}

// instead returns an unknown flag as it was typed, and suggests a correction where it can.
func instead(cmd *cobra.Command, unknown *pflag.NotExistError) string {
	shown := dashed(quotable(unknown.GetSpecifiedName()))
	typed, _, _ := strings.Cut(unknown.GetSpecifiedShortnames(), "=")
	switch {
	case cmd.Flags().Lookup(typed) != nil: // with one dash
		return "-" + typed + `; did you mean "--` + typed + `"?`
	case strings.Contains(cmd.Use, "-- CMD") && cmd.Flags().NArg() > 1: // consume orders sh -c true
		return shown + "; put -- before the command that is to run, as in: strikes " + cmd.Use
	case unknown.GetSpecifiedShortnames() != "": // such as a negative number, or the queue -orders
		return shown + "; put an argument that begins with - after --"
	}
	return shown
}

func dashed(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}

func refusedValue(flag *pflag.Flag, called, value string, err error) error {
	want := cmp.Or(wanted[flag.Value.Type()], "a text")
	if c, is := flag.Value.(interface{ wanted() string }); is {
		want = c.wanted()
	}
	if errors.Is(err, strconv.ErrRange) {
		want += " within the flag's range"
	}
	return Misuse(setting.New(called, quotable(value), want))
}
