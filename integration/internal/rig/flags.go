package rig

import (
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
)

// Parse parses a command line of flags alone.
func Parse(f *flag.FlagSet, args []string) error {
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() > 0 {
		return fmt.Errorf("unknown argument %q", f.Arg(0))
	}
	return nil
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

// ErrUsage is wrapped by errors about a command line.
var ErrUsage = errors.New("-h lists the flags")

// Usage makes an error one about a command line.
func Usage(err error) error { return fmt.Errorf("%w; %w", err, ErrUsage) }
