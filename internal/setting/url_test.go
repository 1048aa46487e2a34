package setting

import (
	"errors"
	"net/url"
	"strings"
	"testing"
)

func TestRedactURL(t *testing.T) {
	const not = "(a URL that is not shown)"
	tests := []struct{ in, want string }{
		{"amqp://guest:secret@host:5672/vhost", "amqp://guest:xxxxx@host:5672/vhost"},
		{"redis://:secret@host/0?read_timeout=1s", "redis://:xxxxx@host/0"},
		{"redis://secret@host/0", "redis://host/0"},
		{"redis://host:6379/0", "redis://host:6379/0"},
		{"redis://host?password=secret", "redis://host"},
		{"redis://host#secret", "redis://host"},
		{"amqps://us%40er:p%2Fw@host/%2f", "amqps://us%40er:xxxxx@host/%2f"},
		{"unix://:secret@/run/redis.sock", "unix://:xxxxx@/run/redis.sock"},
		{"amqp://guest:se/cret@host/", not},
		{"amqp://guest:1234/secret@host/", not}, // a port and a path, to net/url
		{"amqp://guest:se@cret@host/", not},
		{"amqp://guest:12#secret@host/", not},
		{"amqp://guest:12?secret@host/", not},
		{"redis://host/?a=%zz", not},
		{"guest:secret@host", not},
		{"secret", not},
		{"", "(none)"},
		{"amqp://guest:\x01@host", not},
	}
	for _, tt := range tests {
		if got := RedactURL(tt.in); got != tt.want {
			t.Errorf("RedactURL(%q) = %q, want %q", tt.in, got, tt.want)
		}
	}
}

func TestHide(t *testing.T) {
	const text = `the a of bank a, WRONGPASS user:bank@db: invalid password of bank_users: "\nbank"`
	for secret, want := range map[string]string{
		"a": "the (password) of bank (password), WRONG", "bank": "the a of (password) a, WRONGPASS user:(password)@db",
		"PASS": text, "pass": text, "xyz": text, "r:b": "WRONGPASS use(password)ank@db", "@": "bank(password)db",
	} {
		got := Hide(text, secret)
		if !strings.Contains(got, want) || secret == "bank" && !strings.HasSuffix(got, `of bank_users: "\n(password)"`) {
			t.Errorf("%q: %q, want %q", secret, got, want)
		}
	}
	long := strings.Repeat("k", surelySecret)
	if got := Hide("x"+long+"y", long); got != "x(password)y" {
		t.Errorf("a long one: %q", got)
	}
}

// FuzzRedactURL puts a password into a URL as people do, encoded or not.
func FuzzRedactURL(f *testing.F) {
	for _, password := range []string{"secret", "se/cret", "se@cret", "12/secret", "12#secret", "?secret", "[secret",
		"%73ecret", "a:b@c"} {
		f.Add(password)
	}
	f.Fuzz(func(t *testing.T, password string) {
		marked := "S3CR3T" + password + "S3CR3T"
		for _, raw := range []string{
			"amqp://user:" + marked + "@host:5672/vhost",
			"amqp://user:1" + password + marked + "@host/",
			"redis://:" + url.QueryEscape(marked) + "@host/0",
		} {
			_, _, err := ParseURL(raw)
			if got := RedactURL(raw); strings.Contains(got, "S3CR3T") || err != nil && strings.Contains(err.Error(), "S3CR3T") {
				t.Errorf("RedactURL(%q) = %q, Parse: %v", raw, got, err)
			}
		}
	})
}

func TestCheckParameters(t *testing.T) {
	_, parameters, err := ParseURL("amqps://u:s3cret@host/?heartbeat=5&verify=no&cafile=x")
	if err != nil {
		t.Fatal(err)
	}
	err = CheckParameters(parameters, []string{"heartbeat", "verify"})
	if err == nil || err.Error() != `parameter must be one of heartbeat, verify, got "cafile"` {
		t.Errorf("got %v", err)
	}
	if err := CheckParameters(parameters, []string{"cafile", "heartbeat", "verify"}); err != nil {
		t.Errorf("all known: %v", err)
	}
	if _, _, err := ParseURL("amqp://u:12?s3cret@host/"); !errors.Is(err, ErrURL) {
		t.Errorf("a password that is read as a parameter: %v", err)
	}
}
