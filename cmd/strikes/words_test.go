package main

import (
	"strings"
	"testing"
)

// TestParseErrorsArePlain: what the parser refuses is told in words of the command line, not of Go.
func TestParseErrorsArePlain(t *testing.T) {
	const see = " (see strikes consume --help)"
	tests := []struct {
		env  string // STRIKES_…=…
		args string
		want string
	}{
		{"", "--concurrency many", `--concurrency is "many": it is a whole number` + see},
		{"", "--concurrency 1.5", `--concurrency is "1.5": it is a whole number` + see},
		{"", "--max-retries 99999999999999999999", `--max-retries is "99999999999999999999": it is too large or too small a number` + see},
		{"", "--handler-timeout soon", `--handler-timeout is "soon": it is a time like 500ms, 30s or 5m` + see},
		{"", "--handler-timeout 5", `--handler-timeout is "5": it is a time like 500ms, 30s or 5m` + see},
		{"", "--ordered=maybe", `--ordered is "maybe": it is true or false` + see},
		{"", "--nope", `there is no flag --nope` + see},
		{"", "-x", `there is no flag -x` + see},
		{"", "--backoff", `--backoff has no value` + see},
		{"STRIKES_CONCURRENCY=many", "", `the environment variable STRIKES_CONCURRENCY is "many": it is a whole number`},
		{"STRIKES_CONSUMER_TIMEOUT=5", "", `the environment variable STRIKES_CONSUMER_TIMEOUT is "5": it is a time like 500ms, 30s or 5m`},
		{"STRIKES_ORDERED=maybe", "", `the environment variable STRIKES_ORDERED is "maybe": it is true or false`},
	}
	for _, tt := range tests {
		if name, value, set := strings.Cut(tt.env, "="); set {
			t.Setenv(name, value)
		}
		var stdout, stderr output
		code := run(t.Context(), streams{stdin: strings.NewReader(""), stdout: &stdout, stderr: &stderr}, append([]string{"strikes", "consume"}, strings.Fields(tt.args)...))
		if code != exitUsage || stderr.String() != "strikes: "+tt.want+"\n" || stdout.String() != "" {
			t.Errorf("%s %s: exit code %d, %q, %q", tt.env, tt.args, code, stderr.String(), stdout.String())
		}
		if name, _, set := strings.Cut(tt.env, "="); set {
			t.Setenv(name, "")
		}
	}
}
