package counter

import (
	"fmt"
	"maps"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/strikesmq/strikes/internal/setting"
)

// valueKind is a kind of parameter values.
type valueKind struct {
	want string // for people
	is   func(string) bool
}

var (
	isText  = valueKind{"a text", func(string) bool { return true }}
	isIndex = valueKind{"a whole number, 0 or more", func(s string) bool {
		_, err := strconv.ParseUint(s, 10, 31)
		return err == nil
	}}
	isCount = valueKind{"a whole number, 0 to 65535", func(s string) bool {
		_, err := strconv.ParseUint(s, 10, 16)
		return err == nil
	}}
	isSwitch = valueKind{"true or false", func(s string) bool {
		return slices.Contains([]string{"true", "false", "1", "0"}, s)
	}}
	isTime = valueKind{"a time like 500ms, or whole seconds", func(s string) bool {
		_, err := time.ParseDuration(s)
		n, other := strconv.ParseInt(s, 10, 64)
		return err == nil || other == nil && n <= math.MaxInt64/int64(time.Second)
	}}
	isTimeout = valueKind{"a time like 500ms, or whole seconds, more than 0", func(s string) bool {
		return isTime.is(s) && strings.ContainsAny(s, "123456789") && !strings.HasPrefix(s, "-")
	}}
	isProtocol = valueKind{"2 or 3", func(s string) bool { return s == "2" || s == "3" }}
)

// parameters returns the parameters of a store's URL that Dial accepts, by the kind of store. Dial sets go-redis's
// others itself, such as max_retries.
func parameters(kind string, encrypted bool) map[string]valueKind {
	known := map[string]valueKind{
		"client_name": isText, "protocol": isProtocol, "read_timeout": isTimeout, "write_timeout": isTimeout,
		"dial_timeout": isTimeout, "pool_timeout": isTimeout,
		"pool_size": isCount, "pool_fifo": isSwitch, "min_idle_conns": isCount, "max_idle_conns": isCount,
		"max_active_conns": isCount, "conn_max_idle_time": isTime, "conn_max_lifetime": isTime,
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

// checkURL refuses a URL with a part that is invalid or would be ignored. kind is the part of its scheme after the +.
func checkURL(raw, kind string) error {
	u, given, err := setting.ParseURL(raw)
	if err != nil {
		return &setting.FieldError{Field: "URL", Value: "one that cannot be read",
			Want: "redis[s]://user:password@host:port/db, " +
				"the port at most 65535, with / as %2F, ? as %3F, # as %23 and @ as %40 in a password"}
	}
	known := parameters(kind, strings.HasPrefix(u.Scheme, "rediss"))
	if err := setting.CheckParameters(given, slices.Sorted(maps.Keys(known))); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if len(given[name]) > 1 && name != "addr" {
			return &setting.FieldError{Field: "parameter " + name, Value: "several", Want: "given once"}
		}
		for _, v := range given[name] {
			if !known[name].is(v) {
				return setting.New("parameter "+name, v, known[name].want)
			}
		}
	}
	return checkPath(u, kind, given.Has("db"))
}

// checkPath refuses a path that is no database, or one more than the parameter db. go-redis would read a negative one
// as 0, and a Cluster has only 0.
func checkPath(u *url.URL, kind string, hasParameter bool) error {
	db := strings.Trim(u.Path, "/")
	switch {
	case u.Scheme == "unix" || db == "" || kind == "cluster" && db == "0":
		return nil
	case kind == "cluster":
		return setting.New("database", db, "0 in a Cluster, which has no other")
	case !isIndex.is(db):
		return setting.New("database", db, fmt.Sprintf("%s, as the path of the URL", isIndex.want))
	case hasParameter:
		return setting.New("database", db, "given once: in the path of the URL or as its parameter db")
	}
	return nil
}
