package install

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
)

// FindPromtool returns the path of promtool, which tests alert rules: an installed one, or the one that Install keeps in the user's
// cache directory.
func FindPromtool() (string, error) {
	if path, err := exec.LookPath("promtool"); err == nil {
		return path, nil
	}
	return findCached("promtool")
}

// unpackPromtool takes promtool out of Debian's package prometheus. Installing the package would start servers.
func unpackPromtool(ctx context.Context, out io.Writer) (err error) {
	dir, err := os.MkdirTemp("", "strikes-promtool-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if os.Geteuid() == 0 { // else the lists that are there must do
		if err := run(ctx, out, "apt-get", "-qq", "update"); err != nil {
			return err
		}
	}
	if err := run(ctx, out, "sh", "-c", `cd "$1" && apt-get -qq download prometheus && dpkg-deb -x prometheus_*.deb .`, "sh", dir); err != nil {
		return err
	}
	tool, err := os.ReadFile(filepath.Join(dir, "usr", "bin", "promtool"))
	if err != nil {
		return err
	}
	return cache(tool, "promtool", 0o700)
}
