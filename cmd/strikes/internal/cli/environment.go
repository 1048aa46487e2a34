package cli

import (
	"os"
	"strings"

	"github.com/spf13/pflag"
)

// environment is the annotation of a flag that names its environment variables.
const environment = "strikes_environment"

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

// zeroText is the default that help does not print, by type of flag; empty for others.
var zeroText = map[string]string{"int": "0"}

// DefaultText shows a text in place of a flag's default, which may be derived or hold a password.
func DefaultText(flags *pflag.FlagSet, name, text string) {
	flag := flags.Lookup(name)
	flag.DefValue = zeroText[flag.Value.Type()]
	flag.Usage += " (default " + text + ")"
}

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
			if refused := flag.Value.Set(value); refused != nil {
				err = Misuse(refusedValue(flag, "the environment variable "+name, value, refused))
			}
			flag.Changed = true
			return
		}
	})
	return err
}
