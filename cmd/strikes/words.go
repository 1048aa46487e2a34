package main

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// The parser's errors, which quote those of package strconv and time.
var (
	badFlag     = regexp.MustCompile(`(?s)^invalid value (".*") for flag -+([\w-]+): (.*)$`)
	badVariable = regexp.MustCompile(`(?s)^could not parse (".*") as .* value from environment variable "(\w+)" for flag [\w-]+: (.*)$`)
	noFlag      = regexp.MustCompile(`^flag provided but not defined: -+(.*)$`)
	noValue     = regexp.MustCompile(`^flag needs an argument: (.*)$`)
)

// inWords is what people are told instead of an error of the parser's.
func inWords(err error) string {
	text := err.Error()
	if m := badFlag.FindStringSubmatch(text); m != nil {
		return fmt.Sprintf("--%s is %s: %s", m[2], m[1], wanted(m[3]))
	}
	if m := badVariable.FindStringSubmatch(text); m != nil {
		return fmt.Sprintf("the environment variable %s is %s: %s", m[2], m[1], wanted(m[3]))
	}
	if m := noFlag.FindStringSubmatch(text); m != nil {
		return "there is no flag " + dashed(m[1])
	}
	if m := noValue.FindStringSubmatch(text); m != nil {
		return dashed(strings.TrimLeft(m[1], "-")) + " has no value"
	}
	return text
}

// wanted says what a value should have been, by the reason why it is not.
func wanted(reason string) string {
	switch {
	case strings.Contains(reason, "out of range"):
		return "it is too large or too small a number"
	case strings.Contains(reason, "ParseInt"), strings.Contains(reason, "ParseUint"), strings.Contains(reason, "Atoi"):
		return "it is a whole number"
	case strings.Contains(reason, "ParseFloat"):
		return "it is a number"
	case strings.Contains(reason, "duration"):
		return "it is a time like 500ms, 30s or 5m"
	case strings.Contains(reason, "ParseBool"), reason == "parse error":
		return "it is true or false"
	}
	return reason
}

// dashed is a flag as it is written.
func dashed(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}

var goParsing = regexp.MustCompile(`: strconv\.\w+: parsing.*`)

// withoutGo takes the words of package strconv off the end of a text.
func withoutGo(text string) string { return goParsing.ReplaceAllString(text, "") }

// said is a library's text as people at a command line are told it.
func said(text string) string { return withoutPasswords(inFlags(text)) }

// What a library's text may hold: quotations, which stay as they are; the names of packages, before what went wrong in them;
// and names of Go that are flags here.
var (
	ofPackages  = regexp.MustCompile(`(^|[\s(])(?:(?:consumer|counter|deadletter|publisher|topology): )+`)
	goNames     = regexp.MustCompile(`(?:the )?\b(?:` + strings.Join(slices.Sorted(maps.Keys(flagOf)), "|") + `)\b`)
	quotedOrNot = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|[^"]+`)

	flagOf = map[string]string{
		"AllowDrop": "--allow-drop", "Backoff": "--backoff", "ConsumerTimeout": "--consumer-timeout", "DrainTimeout": "--drain-timeout",
		"HandlerTimeout": "--handler-timeout", "Management": "--management-url", "MaxRetries": "--max-retries",
		`Options\.Prefix`: "--prefix", "Prefetch": "--prefetch", `Replay\.Target`: "--key",
	}
)

// inFlags puts a library's words as those of this command line.
func inFlags(text string) string {
	return quotedOrNot.ReplaceAllStringFunc(text, func(part string) string {
		if part[0] == '"' {
			return part
		}
		part = ofPackages.ReplaceAllString(part, "$1")
		return goNames.ReplaceAllStringFunc(part, func(name string) string {
			return flagOf[regexp.QuoteMeta(strings.TrimPrefix(name, "the "))]
		})
	})
}
