package servers

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// rabbitSbins are where RabbitMQ's own scripts live: Debian and RPM packages,
// the generic tarball and the Docker image, Homebrew on both Macs and on Linux.
var rabbitSbins = []string{
	"/usr/lib/rabbitmq/lib/rabbitmq_server-*/sbin",
	"/opt/rabbitmq/sbin",
	"/opt/homebrew/opt/rabbitmq/sbin",
	"/usr/local/opt/rabbitmq/sbin",
	"/home/linuxbrew/.linuxbrew/opt/rabbitmq/sbin",
}

// moreBins is added to PATH: an ordinary user's often lacks the sbin directories, and a launcher's lacks Homebrew's.
var moreBins = []string{
	"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin",
	"/opt/homebrew/sbin", "/opt/homebrew/bin", "/opt/erlang/lib/erlang/bin", "/home/linuxbrew/.linuxbrew/bin",
}

// FindRabbitMQ returns the directory of an installed RabbitMQ's own scripts (rabbitmq-server, rabbitmqctl). Debian's
// /usr/sbin/rabbitmq-server is not one of them: it changes to the user and the directories of the machine's broker.
func FindRabbitMQ() (sbin string, err error) {
	if path, err := findExecutable("rabbitmq-server"); err == nil {
		if script, err := filepath.EvalSymlinks(path); err == nil && isSbin(filepath.Dir(script)) {
			return filepath.Dir(script), nil
		}
	}
	for _, pattern := range rabbitSbins {
		dirs, _ := filepath.Glob(pattern) // fails only on a malformed pattern
		for _, dir := range dirs {
			if isSbin(dir) {
				return dir, nil
			}
		}
	}
	return "", fmt.Errorf("no rabbitmq-server is installed: %w", exec.ErrNotFound)
}

// isSbin reports whether the script in dir is RabbitMQ's own, which sources rabbitmq-env from beside it.
func isSbin(dir string) bool {
	for _, name := range []string{"rabbitmq-server", "rabbitmq-env"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			return false
		}
	}
	return true
}

// FindRedis returns the path of an installed redis-server, or else of a valkey-server.
func FindRedis() (string, error) {
	for _, name := range []string{"redis-server", "valkey-server"} {
		if path, err := findExecutable(name); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("no redis-server is installed: %w", exec.ErrNotFound)
}

// findPostgreSQL returns the path of an installed postgres: the newest where Debian and Red Hat keep each version, or
// that on PATH.
func findPostgreSQL() (newest string, err error) {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres") // fails only on a malformed pattern
	more, _ := filepath.Glob("/usr/pgsql-*/bin/postgres")
	if found = append(found, more...); len(found) == 0 {
		return findExecutable("postgres")
	}
	return slices.Max(found), nil // from version 10 on each number has two digits
}

func findExecutable(name string) (string, error) {
	if path, err := exec.LookPath(name); err == nil {
		return filepath.Abs(path)
	}
	for _, dir := range moreBins {
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s: %w", name, exec.ErrNotFound)
}

// searchPath is the PATH of a child.
func searchPath() string {
	dirs := filepath.SplitList(os.Getenv("PATH"))
	return strings.Join(append(dirs, moreBins...), string(filepath.ListSeparator))
}
