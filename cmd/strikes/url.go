package main

import (
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// readable reports whether a URL can be taken apart without doubt. A password with an unencoded / or @ in it is read as host,
// port or path, and would turn up in the error of whoever tries to connect there.
func readable(raw string) bool {
	u, err := url.Parse(raw)
	return err == nil && u.Scheme != "" && u.Opaque == "" && validPort(u.Port()) &&
		strings.Count(raw, "@") <= 1 && (u.User != nil || !strings.Contains(raw, "@"))
}

// validPort reports whether there can be such a port; none is the usual one.
func validPort(port string) bool {
	n, err := strconv.ParseUint(port, 10, 16)
	return port == "" || err == nil && n > 0
}

// validDatabase reports whether the database that a store's URL names is a number. A negative one would be taken for 0.
func validDatabase(raw string) bool {
	u, err := url.Parse(raw)
	if err != nil {
		return false
	}
	names := u.Query()["db"]
	if path := strings.Trim(u.Path, "/"); path != "" && !strings.HasPrefix(u.Scheme, "unix") {
		names = append(names, path)
	}
	return !slices.ContainsFunc(names, func(name string) bool {
		_, err := strconv.ParseUint(name, 10, 31)
		return err != nil
	})
}

// redacted returns a URL as it may be shown: without its password and its parameters, or not at all.
func redacted(raw string) string {
	if !readable(raw) {
		return "(a URL that is not shown)"
	}
	u, err := url.Parse(raw)
	if err != nil {
		return "(a URL that is not shown)"
	}
	u.RawQuery, u.ForceQuery, u.Fragment, u.RawFragment = "", false, "", ""
	return u.Redacted()
}

var userinfo = regexp.MustCompile(`(\w[\w+.-]*://)[^\s"]*@`)

// withoutPasswords is for text that may quote an argument: a URL in the wrong place is quoted like any other.
func withoutPasswords(text string) string {
	return userinfo.ReplaceAllStringFunc(text, func(found string) string {
		if strings.HasSuffix(found, ":xxxxx@") || strings.HasSuffix(found, "://user:password@") { // none, or an example of ours
			return found
		}
		scheme, _, _ := strings.Cut(found, "://")
		return scheme + "://…@"
	})
}
