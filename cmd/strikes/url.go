package main

import (
	"net/url"
	"regexp"
	"strings"
)

// readable reports whether a URL can be taken apart without doubt. A password with an unencoded / or @ in it is read as host,
// port or path, and would turn up in the error of whoever tries to connect there.
func readable(raw string) bool {
	u, err := url.Parse(raw)
	return err == nil && u.Scheme != "" && u.Opaque == "" &&
		strings.Count(raw, "@") <= 1 && (u.User != nil || !strings.Contains(raw, "@"))
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
		if strings.HasSuffix(found, ":xxxxx@") {
			return found
		}
		scheme, _, _ := strings.Cut(found, "://")
		return scheme + "://…@"
	})
}
