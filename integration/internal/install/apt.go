package install

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// apt installs Debian packages. They ask the script policy whether they may
// start their services.
type apt struct{ policy string }

func aptPackages(tools []Tool) []string {
	var all []string
	for _, t := range tools {
		all = append(all, packages[t].apt...)
	}
	return all
}

// install does so without starting the packages' services, now or at the
// next boot: the tests start private servers.
func (a apt) install(ctx context.Context, out io.Writer, tools []Tool) (err error) {
	allow, err := a.forbidServices()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, allow()) }()

	if err := run(ctx, out, "apt-get", "-qq", "update"); err != nil {
		return err
	}
	args := []string{"-qq", "-o", "DPkg::Lock::Timeout=120", "install", "--yes", "--no-install-recommends"}
	if err := run(ctx, out, "apt-get", append(args, aptPackages(tools)...)...); err != nil {
		return err
	}
	return disableServices(ctx, out, tools)
}

// forbidServices makes the policy refuse every start until allow is called.
// A policy that is there already is left to decide.
func (a apt) forbidServices() (allow func() error, err error) {
	f, err := os.OpenFile(a.policy, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755) //nolint:gosec // it is a script
	if errors.Is(err, fs.ErrExist) {
		return func() error { return nil }, nil
	}
	if err != nil {
		return nil, err
	}
	_, err = io.WriteString(f, "#!/bin/sh\nexit 101\n")
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, errors.Join(err, os.Remove(a.policy))
	}
	return func() error { return os.Remove(a.policy) }, nil
}

func disableServices(ctx context.Context, out io.Writer, tools []Tool) error {
	if !onPath("systemctl") { // and so nothing would start them
		return nil
	}
	for _, t := range tools {
		service := packages[t].service
		if service == "" {
			continue
		}
		if err := run(ctx, out, "systemctl", "--quiet", "disable", service); err != nil {
			return fmt.Errorf("it is installed, and will start at the next boot: %w", err)
		}
	}
	return nil
}
