package counters

import (
	"net/url"
	"strings"

	"github.com/strikesmq/strikes/internal/shell"
)

// redisCLI is a line for a shell that gives a command to the store at a URL; it asks for the password, if there is one.
// To one node of a cluster, or to a Sentinel, it does not know the way.
func redisCLI(rawURL string, command ...string) string {
	line := []string{"redis-cli"}
	if u, err := url.Parse(rawURL); err == nil && (u.Scheme == "redis" || u.Scheme == "rediss") {
		at := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}
		if db := u.Query().Get("db"); db != "" {
			at.Path = "/" + db
		}
		line = append(line, "-u", shell.Word(at.String()))
		if user := u.User.Username(); user != "" {
			line = append(line, "--user", shell.Word(user))
		}
		if _, set := u.User.Password(); set {
			line = append(line, "--askpass")
		}
	}
	for _, word := range command {
		line = append(line, shell.Word(word))
	}
	return strings.Join(line, " ")
}
