package counter

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/strikesmq/strikes/internal/setting"
)

// isWhat reports whether a parameter's value is one; what names it for people.
type isWhat struct {
	what string
	is   func(string) bool
}

var (
	isText   = isWhat{"a text", func(string) bool { return true }}
	isNumber = isWhat{"a whole number", func(s string) bool { _, err := strconv.Atoi(s); return err == nil }}
	isIndex  = isWhat{"a whole number, 0 or more", func(s string) bool { _, err := strconv.ParseUint(s, 10, 31); return err == nil }}
	isSwitch = isWhat{"true or false", func(s string) bool { return slices.Contains([]string{"true", "false", "1", "0"}, s) }}
	isTime   = isWhat{"a time like 500ms, or whole seconds", func(s string) bool {
		_, err := time.ParseDuration(s)
		return err == nil || isNumber.is(s)
	}}
)

// parameters returns those of a store's URL that Dial obeys, by the kind of store. Dial itself sets go-redis's others, such as
// max_retries.
func parameters(kind string, encrypted bool) map[string]isWhat {
	known := map[string]isWhat{
		"client_name": isText, "protocol": isNumber, "read_timeout": isTime, "write_timeout": isTime, "dial_timeout": isTime,
		"pool_size": isNumber, "pool_fifo": isSwitch, "pool_timeout": isTime, "min_idle_conns": isNumber, "max_idle_conns": isNumber,
		"max_active_conns": isNumber, "conn_max_idle_time": isTime, "conn_max_lifetime": isTime,
	}
	if kind != "cluster" {
		known["db"] = isIndex
		if encrypted {
			known["skip_verify"] = isSwitch
		}
	}
	switch kind {
	case "sentinel":
		known["master_name"], known["username"], known["password"], known["addr"] = isText, isText, isText, isText
	case "cluster":
		known["addr"] = isText
	}
	return known
}

// checkURL refuses a URL with a part that is invalid or would be ignored. kind is what follows the + in its scheme.
func checkURL(raw, kind string) error {
	u, given, err := setting.ParseURL(raw)
	if err != nil {
		return &setting.FieldError{Field: "URL", Value: "one that cannot be read", Want: "redis[s]://user:password@host:port/db, " +
			"the port at most 65535, with / as %2F, ? as %3F, # as %23 and @ as %40 in a password"}
	}
	known := parameters(kind, strings.HasPrefix(u.Scheme, "rediss"))
	if err := setting.CheckParameters(given, slices.Sorted(maps.Keys(known))); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		for _, v := range given[name] {
			if !known[name].is(v) {
				return setting.New("parameter "+name, v, known[name].what)
			}
		}
	}
	return checkPath(u, kind)
}

// checkPath refuses a path that names no database. One below zero would be taken for 0, and a Cluster has no other.
func checkPath(u *url.URL, kind string) error {
	db := strings.Trim(u.Path, "/")
	switch {
	case u.Scheme == "unix" || db == "" || kind == "cluster" && db == "0":
		return nil
	case kind == "cluster":
		return setting.New("database", db, "0 in a Cluster, which has no other")
	case !isIndex.is(db):
		return setting.New("database", db, fmt.Sprintf("%s: the path of the URL is its number", isIndex.what))
	}
	return nil
}
