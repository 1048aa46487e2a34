package main

import (
	"strings"
	"testing"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
)

// TestMisuse: an error of the parser, or of a setting that a library refuses, is in words of the command line, without
// a password, and quotes the typed words unchanged.
func TestMisuse(t *testing.T) {
	t.Setenv("AMQP_URL", "amqp://127.0.0.1:1")
	t.Setenv("REDIS_URL", "redis://127.0.0.1:1")
	const see = " (see strikes consume --help)"
	tests := []struct {
		env  string // STRIKES_…=…
		args string
		want string
	}{
		{"", "consume --concurrency many", `--concurrency must be a whole number, got "many"` + see},
		{"", "consume --concurrency=1.5", `--concurrency must be a whole number, got "1.5"` + see},
		{"", "consume --max-retries 99999999999999999999",
			`--max-retries must be a whole number within the flag's range, got "99999999999999999999"` + see},
		{"", "consume --handler-timeout soon", `--handler-timeout must be a time like 500ms, 30s or 5m, got "soon"` + see},
		{"", "consume --handler-timeout 5", `--handler-timeout must be a time like 500ms, 30s or 5m, got "5"` + see},
		{"", "consume --handler-timeout amqp://u:hush@h/",
			`--handler-timeout must be a time like 500ms, 30s or 5m, got "amqp://u:xxxxx@h/"` + see},
		{"", "consume --ordered=maybe", `--ordered must be true or false, got "maybe"` + see},
		{"", "consume --nope", `there is no flag --nope` + see},
		{"", "consume --Backoff", `there is no flag --Backoff; did you mean "--backoff"?` + see},
		{"", "consume --retries 3", `there is no flag --retries; did you mean "--max-retries"?` + see},
		{"", "consume -x", `there is no flag -x` + see},
		{"", "consume -max-retries=3", `there is no flag -max-retries; did you mean "--max-retries"?` + see},
		{"", "consume -backoff 5", `there is no flag -backoff; did you mean "--backoff"?` + see},
		{"", "counter get orders -1",
			`there is no flag -1; put an argument that begins with - after -- (see strikes counter get --help)`},
		{"", "consume --backoff", `--backoff has no value` + see},
		{"", "dead replay --rate Prefetch q", `--rate must be a number, got "Prefetch" (see strikes dead replay --help)`},
		{"", "--nope consume", `there is no flag --nope (see strikes --help)`},
		{"STRIKES_CONCURRENCY=many", "consume",
			`the environment variable STRIKES_CONCURRENCY must be a whole number, got "many"`},
		{"STRIKES_CONSUMER_TIMEOUT=5", "consume",
			`the environment variable STRIKES_CONSUMER_TIMEOUT must be a time like 500ms, 30s or 5m, got "5"`},
		{"STRIKES_ORDERED=maybe", "consume", `the environment variable STRIKES_ORDERED must be true or false, got "maybe"`},
		{"", "consume --backoff 5 q -- true",
			`--backoff must be a time like 0, 500ms or 1m, or a rising range like 100ms..30s, got "5"`},
		{"", "counter list --prefix {x} q", `--prefix must be without { and }, got "{x}"`},
		{"", "declare --delivery-limit -1 q",
			`--delivery-limit must be well above the number of retries, or 0 for 1000, got -1`},
		{"", "declare --delay-queues --partitions 3 q", "--delay-queues must be false with --partitions, because a delayed " +
			"message would be overtaken, got true"},
		{"", "consume --consumer-timeout 1s q -- true",
			`--consumer-timeout must be that of the broker, 1m0s at least and 100 years at most, got 1s`},
		{"", "consume --handler-timeout 1h q -- true",
			`--handler-timeout must be at most 15m0s, half of --consumer-timeout, got 1h0m0s`},
		{"", "doctor --management-url ftp://x q",
			`--management-url must be http[s]://user:password@host:15672, got another URL`},
		{"", "export --listen=", `--listen must be an address like 127.0.0.1:9464, got ""`},
		{"", "export --queue=", "--queue: the name is empty"},
		{"", "console --queue=", "--queue: the name is empty"},
		{"", "declare q --why x", "--why needs --repartition: the audit log keeps no other declare"},
		{"AMQP_URL=redis://h:6379?read_timeout=1s", "declare q", `the environment variable AMQP_URL must be the URL of a ` +
			`broker, got that of a store: give it with REDIS_URL, STRIKES_STORE_URL or --store-url`},
		{"", "declare --amqp-url mariadb://h/d q", `--amqp-url must be the URL of a broker, got that of a store: give it ` +
			`with REDIS_URL, STRIKES_STORE_URL or --store-url`},
		{"REDIS_URL=amqps://h", "counter list q", `the environment variable REDIS_URL must be the URL of a store, got that ` +
			`of a broker: give it with AMQP_URL, STRIKES_AMQP_URL or --amqp-url`},
		{"", "counter list --redis-url memcached://h q", `--store-url: scheme must be postgres://, mysql://, redis://, ` +
			`rediss://, unix://, redis+sentinel:// or redis+cluster://, got another`},
		{"", "console --allow drop", "--allow drop lets visitors drop messages, and each drop writes a file first: give " +
			"its directory with --drop-dir, or leave drop out"},
		{"", "status --management-url http:// q",
			`--management-url must be http[s]://user:password@host:15672, got another URL`},
	}
	for _, tt := range tests {
		name, value, set := strings.Cut(tt.env, "=")
		if set {
			t.Setenv(name, value)
		}
		code, out, errs := called(t, strings.Fields(tt.args)...)
		if code != cli.ExitMisuse || errs != "strikes: "+tt.want+"\n" || out != "" {
			t.Errorf("%s %s: exit code %d, %q, %q", tt.env, tt.args, code, errs, out)
		}
		if set {
			t.Setenv(name, "")
		}
	}
}
