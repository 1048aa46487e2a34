package install

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// cachePath is where a file is kept in the user's cache directory.
func cachePath(file string) (string, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("looking for %s: %w", file, err)
	}
	return filepath.Join(dir, "strikes", file), nil
}

func findCached(file string) (string, error) {
	path, err := cachePath(file)
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("%s is not installed: %w", file, exec.ErrNotFound)
	}
	return path, nil
}

// cache writes a file in one step: another process may look for it meanwhile.
func cache(content []byte, file string, mode os.FileMode) error {
	path, err := cachePath(file)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return err
	}
	part := fmt.Sprint(path, ".", os.Getpid())
	if err := os.WriteFile(part, content, mode); err != nil {
		return err
	}
	return os.Rename(part, path)
}
