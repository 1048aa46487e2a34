package rig

import (
	"flag"
	"fmt"
	"slices"
	"strings"
)

// Parse parses a command line of flags alone.
func Parse(f *flag.FlagSet, args []string) error {
	if err := f.Parse(args); err != nil || f.NArg() == 0 {
		return err
	}
	return fmt.Errorf("unknown argument %q; -h lists the flags", f.Arg(0))
}

// List adds a flag for a list of some of the allowed names, separated by commas.
func List(f *flag.FlagSet, to *[]string, name, usage string, allowed ...string) {
	all := strings.Join(allowed, ", ")
	f.Func(name, usage+": `NAME,…` of "+all, func(text string) error {
		*to = strings.Split(text, ",")
		for _, one := range *to {
			if !slices.Contains(allowed, one) {
				return fmt.Errorf("%q is none of %s", one, all)
			}
		}
		return nil
	})
}
