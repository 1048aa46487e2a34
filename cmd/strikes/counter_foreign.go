package main

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/shell"
)

// foreign says that others wrote to the keys of records, and how to take that away; nil if there are no keys. No command of
// ours removes what it does not know.
func (d *desk) foreign(keys ...string) error {
	if len(keys) == 0 {
		return nil
	}
	what := fmt.Sprintf("%d keys of queue %q hold values that are", len(keys), d.queue)
	if len(keys) == 1 {
		what = fmt.Sprintf("the key %q of queue %q holds a value that is", keys[0], d.queue)
	}
	return fmt.Errorf("%s no record of strikes, nor written by it: until it is gone, consumers hold the message "+
		"(store out of reach); look at it, then remove it: %s", what, redisCLI(d.url, append([]string{"DEL"}, keys...)...))
}

// foreignKeys are the keys of those of the records that are none.
func foreignKeys(records []counter.Record) (keys []string) {
	for _, r := range records {
		if r.State == counter.StateForeign {
			keys = append(keys, r.Key)
		}
	}
	return keys
}

// redisCLI is a line for a shell that gives a command to the store at a URL; it asks for the password, if there is one. To one
// node of a cluster, or to a Sentinel, it does not know the way.
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
