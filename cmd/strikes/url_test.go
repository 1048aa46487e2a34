package main

import (
	"net/url"
	"strings"
	"testing"
)

func TestRedacted(t *testing.T) {
	const not = "(a URL that is not shown)"
	tests := []struct{ in, want string }{
		{"amqp://guest:secret@host:5672/vhost", "amqp://guest:xxxxx@host:5672/vhost"},
		{"redis://:secret@host/0?read_timeout=1s", "redis://:xxxxx@host/0"},
		{"redis://host:6379/0", "redis://host:6379/0"},
		{"redis://host?password=secret", "redis://host"},
		{"redis://host#secret", "redis://host"},
		{"amqps://us%40er:p%2Fw@host/%2f", "amqps://us%40er:xxxxx@host/%2f"},
		{"amqp://guest:se/cret@host/", not},
		{"amqp://guest:1234/secret@host/", not}, // a port and a path, to net/url
		{"amqp://guest:se@cret@host/", not},
		{"amqp://guest:12#secret@host/", not},
		{"amqp://guest:12?secret@host/", not},
		{"guest:secret@host", not},
		{"secret", not},
		{"", not},
		{"amqp://guest:\x01@host", not},
	}
	for _, tt := range tests {
		if got := redacted(tt.in); got != tt.want {
			t.Errorf("redacted(%q) = %q, want %q", tt.in, got, tt.want)
		}
	}
}

// FuzzRedacted puts a password into a URL as people do, encoded or not.
func FuzzRedacted(f *testing.F) {
	for _, password := range []string{"secret", "se/cret", "se@cret", "12/secret", "12#secret", "?secret", "[secret", "%73ecret", "a:b@c"} {
		f.Add(password)
	}
	f.Fuzz(func(t *testing.T, password string) {
		marked := "S3CR3T" + password + "S3CR3T"
		for _, raw := range []string{
			"amqp://user:" + marked + "@host:5672/vhost",
			"amqp://user:1" + password + marked + "@host/",
			"redis://:" + url.QueryEscape(marked) + "@host/0",
		} {
			if got := redacted(raw); strings.Contains(got, "S3CR3T") {
				t.Errorf("redacted(%q) = %q", raw, got)
			}
			if b, err := newBroker(raw, "test"); err != nil && strings.Contains(err.Error(), "S3CR3T") {
				t.Errorf("newBroker(%q): %v, %v", raw, b, err)
			}
		}
	})
}

func TestWithoutPasswords(t *testing.T) {
	for text, want := range map[string]string{
		`"amqp://u:S3CRET@h/" is one argument too many`:     `"amqp://…@h/" is one argument too many`,
		`invalid value "redis://:p@ss@h:1/2" for --timeout`: `invalid value "redis://…@h:1/2" for --timeout`,
		"broker amqp://u:xxxxx@h/ is away":                  "broker amqp://u:xxxxx@h/ is away",
		"queue orders, user@host, http://h/":                "queue orders, user@host, http://h/",
	} {
		if got := withoutPasswords(text); got != want {
			t.Errorf("%s: got %s", text, got)
		}
	}
}
