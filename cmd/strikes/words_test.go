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

func TestSaid(t *testing.T) {
	tests := []struct{ in, want string }{
		{`counter: list, queue "q": store error: x`, `list, queue "q": store error: x`},
		{`consumer: queue "a" is refused: topology: queue "b"`, `queue "a" is refused: queue "b"`},
		{`consumer: topology: x`, `x`},
		{`in: counter: list: (topology: x)`, `in: list: (x)`},
		{`queue "counter: Management \" topology: x" and Management`, `queue "counter: Management \" topology: x" and --management-url`},
		{`the encounter: x`, `the encounter: x`},
		{`an unpaired " counter: x`, `an unpaired " x`},
		{`HandlerTimeout is 1h: it is at most half the ConsumerTimeout, 15m`, `--handler-timeout is 1h: it is at most half --consumer-timeout, 15m`},
		{`counter: Options.Prefix is "{"`, `--prefix is "{"`},
		{`deadletter: nothing is replayed: Replay.Target is "q.dlq"`, `nothing is replayed: --key is "q.dlq"`},
		{`lower the Prefetch or the Backoff`, `lower --prefetch or --backoff`},
		{`give the URL of the management API (Management); or accept the loss with AllowDrop`, `give the URL of the management API (--management-url); or accept the loss with --allow-drop`},
		{`redis://:hush@h: counter: x`, `redis://…@h: x`},
		{``, ``},
	}
	for _, tt := range tests {
		if got := said(tt.in); got != tt.want {
			t.Errorf("said(%q) = %q, want %q", tt.in, got, tt.want)
		}
	}
}

// TestErrorsSpeakOfFlags: whatever is wrong is told without the names of packages and fields.
func TestErrorsSpeakOfFlags(t *testing.T) {
	t.Setenv("AMQP_URL", "amqp://127.0.0.1:1")
	t.Setenv("REDIS_URL", "redis://127.0.0.1:1")
	tests := []struct{ args, want string }{
		{"counter list --prefix {x} q", `--prefix is "{x}": it must not contain { or }`},
		{"counter list --redis-url redis+sentinel://127.0.0.1:1 q", `Redis URL redis+sentinel://127.0.0.1:1: no master_name: add ?master_name=NAME, as the sentinels call the master`},
		{"consume --consumer-timeout 1s q -- true", `--consumer-timeout is 1s: it is the broker's, and a minute at least`},
		{"consume --handler-timeout 1h q -- true", `--handler-timeout is 1h0m0s: with --consumer-timeout 30m0s it is 15m0s at most, or the broker takes the message back before a hang is charged; lower it, or raise the broker's consumer_timeout and this one`},
		{"doctor --management-url ftp://x q", `the management API's URL cannot be read: it is http[s]://user:password@host:15672`},
		{"status --management-url http:// q", `the management API's URL cannot be read: it is http[s]://user:password@host:15672`},
	}
	for _, tt := range tests {
		var stderr output
		args := append([]string{"strikes"}, strings.Fields(tt.args)...)
		code := run(t.Context(), streams{stdin: strings.NewReader(""), stdout: &stderr, stderr: &stderr}, args)
		if code != exitUsage || stderr.String() != "strikes: "+tt.want+"\n" {
			t.Errorf("strikes %s: exit code %d, %s", tt.args, code, &stderr)
		}
	}
}
