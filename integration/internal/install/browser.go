package install

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
)

// The release of axe-core that the tests run: its version, and the integrity that npm publishes of its archive.
const (
	axeVersion   = "4.14.1"
	axeIntegrity = "sha512-FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ=="
)

// chromiums are the programs that serve as a browser. Ubuntu's chromium-browser is not one of them: it only asks for a snap.
var chromiums = []string{
	"chromium-headless-shell", "chromium", "google-chrome", "google-chrome-stable",
	"/Applications/Google Chrome.app/Contents/MacOS/Google Chrome", "/Applications/Chromium.app/Contents/MacOS/Chromium",
}

// FindChromium returns the path of an installed Chromium or Chrome.
func FindChromium() (string, error) {
	for _, name := range chromiums {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("no Chromium is installed: %w", exec.ErrNotFound)
}

const axeFile = "axe-core-" + axeVersion + ".min.js"

// FindAxe returns the path of axe-core's script, which Install keeps in the user's cache directory.
func FindAxe() (string, error) { return findCached(axeFile) }

// fetchAxe puts axe-core's script where FindAxe looks. npm downloads the archive.
func fetchAxe(ctx context.Context, out io.Writer) (err error) {
	dir, err := os.MkdirTemp("", "strikes-axe-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := run(ctx, out, "npm", "pack", "--silent", "--pack-destination", dir, "axe-core@"+axeVersion); err != nil {
		return err
	}
	archive, err := os.ReadFile(filepath.Join(dir, "axe-core-"+axeVersion+".tgz"))
	if err != nil {
		return err
	}
	script, err := extract(archive, axeIntegrity, "package/axe.min.js")
	if err != nil {
		return fmt.Errorf("axe-core %s: %w", axeVersion, err)
	}
	return cache(script, axeFile, 0o600)
}

// extract returns the file name of an archive that has this integrity.
func extract(archive []byte, integrity, name string) ([]byte, error) {
	sum := sha512.Sum512(archive)
	if got := "sha512-" + base64.StdEncoding.EncodeToString(sum[:]); got != integrity {
		return nil, fmt.Errorf("integrity of the archive: got %s, want %s", got, integrity)
	}
	unzipped, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		return nil, err
	}
	for files := tar.NewReader(unzipped); ; {
		header, err := files.Next()
		if err != nil {
			return nil, fmt.Errorf("%s in the archive: %w", name, err)
		}
		if header.Name == name {
			return io.ReadAll(files)
		}
	}
}
