package counter

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/strikesmq/strikes/counter/rules"
)

// calls takes every method of a Counter that uses the store, and returns their errors by name.
func calls(ctx context.Context, c *Counter) map[string]error {
	a := attempt(message("1"), "a")
	_, started := c.Start(ctx, a, rules.ModeShared, testLimit)
	_, failed := c.Fail(ctx, a, again)
	_, got := c.Admin().Get(ctx, "/", "orders", "1")
	reset := c.Admin().Reset(ctx, message("1"), Note{Why: "repaired"})
	_, checked := c.Check(ctx)
	errs := map[string]error{
		"Start": started, "Fail": failed, "End": c.End(ctx, a, true), "Get": got, "Reset": reset, "Check": checked,
		"List": nil,
	}
	for _, err := range c.Admin().List(ctx, "/", "orders") {
		errs["List"] = err
	}
	return errs
}

func TestNewRefusesUnsafeClients(t *testing.T) {
	at := miniredis.RunT(t).Addr()
	client := func(o redis.Options) redis.UniversalClient { o.Addr = at; return redis.NewClient(&o) }
	cluster := func(o redis.ClusterOptions) redis.UniversalClient {
		o.Addrs = []string{at}
		return redis.NewClusterClient(&o)
	}
	for name, tc := range map[string]struct {
		rdb  redis.UniversalClient
		says string // empty: it is safe
	}{
		"nil":                      {nil, "nil"},
		"nil *redis.Client":        {(*redis.Client)(nil), "nil *redis.Client"},
		"nil *redis.ClusterClient": {(*redis.ClusterClient)(nil), "nil *redis.ClusterClient"},
		"nil *redis.Ring":          {(*redis.Ring)(nil), "Ring"},
		"defaults":                 {client(redis.Options{}), "MaxRetries is 3"},
		"one retry": {client(redis.Options{MaxRetries: 1, ContextTimeoutEnabled: true}),
			"MaxRetries is 1"},
		"deadlines not obeyed": {client(redis.Options{MaxRetries: -1}), "ContextTimeoutEnabled"},
		"Ring": {redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": at}, MaxRetries: -1,
			ContextTimeoutEnabled: true}), "Ring"},
		"Cluster, retries": {cluster(redis.ClusterOptions{MaxRetries: 2, ContextTimeoutEnabled: true}),
			"MaxRetries is 2"},
		"Cluster, reads from replicas": {cluster(redis.ClusterOptions{MaxRetries: -1, ContextTimeoutEnabled: true,
			ReadOnly: true}), "ReadOnly"},
		"Cluster, reads from the nearest": {cluster(redis.ClusterOptions{MaxRetries: -1, ContextTimeoutEnabled: true,
			RouteByLatency: true}), "RouteByLatency"},
		"Cluster, reads at random": {cluster(redis.ClusterOptions{MaxRetries: -1, ContextTimeoutEnabled: true,
			RouteRandomly: true}), "RouteRandomly"},
		"Cluster, deadlines":          {cluster(redis.ClusterOptions{}), "ContextTimeoutEnabled"},
		"as asked":                    {client(redis.Options{MaxRetries: -1, ContextTimeoutEnabled: true}), ""},
		"Cluster, as asked":           {cluster(redis.ClusterOptions{MaxRetries: -1, ContextTimeoutEnabled: true}), ""},
		"Cluster, its own no retries": {cluster(redis.ClusterOptions{ContextTimeoutEnabled: true}), ""},
		"universal client, as default": {redis.NewUniversalClient(&redis.UniversalOptions{Addrs: []string{at}}),
			"MaxRetries is 3"},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.rdb != nil && !strings.HasPrefix(name, "nil") {
				t.Cleanup(func() { tc.rdb.Close() })
			}
			for method, err := range calls(t.Context(), New(tc.rdb, nil)) {
				switch {
				case tc.says == "" && errors.Is(err, ErrUnsafeClient):
					t.Errorf("%s: %v", method, err)
				case tc.says != "" && (!errors.Is(err, ErrUnsafeClient) || !strings.Contains(err.Error(), tc.says)):
					t.Errorf("%s: %v, want ErrUnsafeClient and %q", method, err, tc.says)
				}
			}
		})
	}
}

func TestOptionsAreRefused(t *testing.T) {
	at := "redis://" + miniredis.RunT(t).Addr()
	for name, tc := range map[string]struct {
		Options
		says string
	}{
		"brace in the prefix":  {Options{Prefix: "a{b"}, `"a{b"`},
		"closing brace":        {Options{Prefix: "}"}, `"}"`},
		"TTL under a minute":   {Options{TTL: time.Minute - 1}, "59.999999999s"},
		"TTL below zero":       {Options{TTL: -time.Hour}, "-1h0m0s"},
		"a TTL in nanoseconds": {Options{TTL: 600}, "600ns"},
	} {
		t.Run(name, func(t *testing.T) {
			var fe *FieldError
			if c, err := Dial(at, &tc.Options); !errors.As(err, &fe) || fe.Value != tc.says {
				t.Errorf("Dial: %v, %v, want an error that says %s", c, err, tc.says)
			}
			if _, err := NewMemory(&tc.Options).Fail(t.Context(), attempt(message("1"), "a"), again); err == nil ||
				!strings.Contains(err.Error(), tc.says) {
				t.Errorf("NewMemory: %v, want an error that says %s", err, tc.says)
			}
			rdb := redis.NewClient(&redis.Options{Addr: at, MaxRetries: -1, ContextTimeoutEnabled: true})
			defer rdb.Close()
			for method, err := range calls(t.Context(), New(rdb, &tc.Options)) {
				if err == nil || !strings.Contains(err.Error(), tc.says) {
					t.Errorf("New, %s: %v, want an error that says %s", method, err, tc.says)
				}
			}
		})
	}
}

// TestCheckNamesTheRemedy: a check that fails for the URL says where, and how to correct it.
func TestCheckNamesTheRemedy(t *testing.T) {
	guarded := miniredis.RunT(t)
	const closed = "127.0.0.1:1" // a port that no server below is given
	guarded.RequireAuth("right")
	silent, err := net.Listen("tcp", "127.0.0.1:0") // as a Redis without TLS answers a client with TLS
	need(t, err)
	defer silent.Close()
	web := httptest.NewServer(http.NotFoundHandler())
	defer web.Close()
	const correct = "; correct user and password in the URL of %s: redis://USER:PASSWORD@HOST:PORT/DB"
	for raw, want := range map[string]string{
		"redis://:hush@" + closed: closed + ": connect: connection refused; start the store, or correct host and port in " +
			"the URL",
		"redis://" + guarded.Addr():       fmt.Sprintf("NOAUTH Authentication required."+correct, guarded.Addr()),
		"redis://:hush@" + guarded.Addr(): fmt.Sprintf(correct, guarded.Addr()),
		"rediss://:hush@" + silent.Addr().String(): "store slow: context deadline exceeded; " +
			"if the store does not speak TLS, write redis in place of rediss in the URL",
		"redis://" + web.Listener.Addr().String(): "another server than a Redis replies: correct host and port in the URL",
	} {
		if _, err := dialTest(t, raw).Check(t.Context()); err == nil || !strings.HasSuffix(err.Error(), want) ||
			strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: %v", raw, err)
		}
	}
}

func TestCloseClosesWhatDialOpened(t *testing.T) {
	at := miniredis.RunT(t).Addr()
	rdb := redis.NewClient(&redis.Options{Addr: at, MaxRetries: -1, ContextTimeoutEnabled: true})
	defer rdb.Close()
	if err := New(rdb, nil).Close(); err != nil {
		t.Error(err)
	}
	if err := rdb.Ping(t.Context()).Err(); err != nil {
		t.Errorf("the caller's client after Close: %v", err)
	}
	c, err := Dial("redis://"+at, nil)
	need(t, err)
	for range 2 {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	for method, err := range calls(t.Context(), c) {
		if !errors.Is(err, redis.ErrClosed) {
			t.Errorf("%s after Close: %v", method, err)
		}
	}
}

// settings are those that Dial promises, of whatever client it made.
type settings struct {
	client                       string
	addr, user, password         string
	retries                      int
	obeysContext, tls            bool
	read, write, dial            time.Duration
	db, dialerRetries, redirects int
	addrs                        string
}

func settingsOf(rdb redis.UniversalClient) settings {
	switch c := rdb.(type) {
	case *redis.Client:
		o := c.Options()
		return settings{
			client: "single", addr: o.Addr, user: o.Username, password: o.Password, retries: o.MaxRetries, db: o.DB,
			obeysContext: o.ContextTimeoutEnabled, read: o.ReadTimeout, write: o.WriteTimeout, dial: o.DialTimeout,
			dialerRetries: o.DialerRetries, tls: o.TLSConfig != nil,
		}
	case *redis.ClusterClient:
		o := c.Options()
		return settings{
			client: "cluster", addrs: strings.Join(o.Addrs, " "), user: o.Username, password: o.Password, retries: o.MaxRetries,
			obeysContext: o.ContextTimeoutEnabled, read: o.ReadTimeout, write: o.WriteTimeout, dial: o.DialTimeout,
			dialerRetries: o.DialerRetries, redirects: o.MaxRedirects, tls: o.TLSConfig != nil,
		}
	}
	return settings{client: fmt.Sprintf("%T", rdb)}
}

func TestDialURLs(t *testing.T) {
	single := settings{
		client: "single", addr: "localhost:6379", obeysContext: true, read: timeout, write: timeout, dial: time.Second,
		dialerRetries: 1,
	}
	cluster := settings{
		client: "cluster", addrs: "a:7000", obeysContext: true, read: timeout, write: timeout, dial: time.Second,
		dialerRetries: 1, redirects: 1,
		retries: -1,
	}
	with := func(s settings, change func(*settings)) settings { change(&s); return s }
	for raw, want := range map[string]settings{
		"redis://":          single,
		"redis://localhost": single,
		"redis://h:1/2":     with(single, func(s *settings) { s.addr, s.db = "h:1", 2 }),
		"redis://u:p%40ss@h:1": with(single, func(s *settings) {
			s.addr, s.user, s.password = "h:1", "u", "p@ss"
		}),
		"redis://:pass@h":                       with(single, func(s *settings) { s.addr, s.password = "h:6379", "pass" }),
		"redis://[::1]:1":                       with(single, func(s *settings) { s.addr = "[::1]:1" }),
		"rediss://h:1":                          with(single, func(s *settings) { s.addr, s.tls = "h:1", true }),
		"unix:///run/redis.sock?db=3":           with(single, func(s *settings) { s.addr, s.db = "/run/redis.sock", 3 }),
		"redis://localhost?read_timeout=2s":     with(single, func(s *settings) { s.read = 2 * time.Second }),
		"redis://localhost?write_timeout=100ms": with(single, func(s *settings) { s.write = 100 * time.Millisecond }),
		"redis://localhost?dial_timeout=3s":     with(single, func(s *settings) { s.dial = 3 * time.Second }),
		"redis://localhost?pool_size=7":         single,
		"redis+sentinel://u:p@s:26379/2?master_name=m&password=q": with(single, func(s *settings) {
			s.addr, s.db, s.password = "FailoverClient", 2, "q"
		}),
		"rediss+sentinel://s:26379?master_name=m&read_timeout=2s": with(single, func(s *settings) {
			s.addr, s.tls, s.read = "FailoverClient", true, 2*time.Second
		}),
		"redis+cluster://a:7000": cluster,
		"redis+cluster://u:p@a:7000?addr=b:7001&addr=c:7002": with(cluster, func(s *settings) {
			s.addrs, s.user, s.password = "a:7000 b:7001 c:7002", "u", "p"
		}),
		"rediss+cluster://a:7000?read_timeout=2s": with(cluster, func(s *settings) {
			s.tls, s.read = true, 2*time.Second
		}),
		"redis+cluster://a:7000/0?pool_size=9&dial_timeout=5s": with(cluster, func(s *settings) { s.dial = 5 * time.Second }),
	} {
		t.Run(raw, func(t *testing.T) {
			c, err := Dial(raw, nil)
			need(t, err)
			defer c.Close()
			if got := settingsOf(c.rdb); got != want {
				t.Errorf("got  %+v\nwant %+v", got, want)
			}
		})
	}
}

func TestDialRefusesURLs(t *testing.T) {
	for raw, says := range map[string]string{
		"":                              `address must be a URL such as redis://localhost:6379`,
		"localhost:6379":                "got none",
		"redis:secret@localhost":        "got none",
		"http://localhost":              "got another",
		"redis+ring://localhost":        "got another",
		"mysql://localhost/strikes":     "store/mysql,",
		"postgresql://localhost":        "store/postgres,",
		"redis+cluster+tls://localhost": "got another",
		"redis://localhost/zero": "database must be a whole number, 0 or more, as the path of the URL, " +
			`got "zero"`,
		"redis://localhost/-1":                     "database must be",
		"redis://localhost?db=-1":                  "parameter db must be a whole number, 0 or more",
		"redis+cluster://localhost/1":              "0 in a Cluster",
		"redis+cluster://localhost?db=0":           "parameter must be one of addr, client_name,",
		"redis://localhost?max_retries=5":          "parameter must be one of client_name, conn_max_idle_time,",
		"redis://localhost?skip_verify=true":       "parameter must be one of",
		"rediss://localhost?cafile=x":              `write_timeout, got "cafile"`,
		"redis://localhost/0/1":                    "database must be",
		"redis://localhost:port":                   "cannot be read",
		"redis://localhost?read_timout=1s":         `got "read_timout"`,
		"redis://localhost?read_timeout=soon":      "read_timeout",
		"redis://localhost?protocol=three":         "protocol",
		"redis://localhost?protocol=9":             "parameter protocol must be 2 or 3",
		"redis://localhost?dial_timeout=0":         "parameter dial_timeout must be a time like 500ms",
		"redis://localhost?read_timeout=0s":        "more than 0",
		"redis://localhost?write_timeout=-1":       "more than 0",
		"redis://localhost?pool_timeout=-5s":       "more than 0",
		"redis://localhost?db=3&db=4":              "parameter db must be given once, got several",
		"redis://localhost/3?db=4":                 "database must be given once: in the path of the URL or as",
		"redis://h?pool_size=-1":                   "parameter pool_size must be a whole number, 0 to 65535",
		"redis://h?min_idle_conns=3000000000":      "parameter min_idle_conns must be",
		"redis://h?dial_timeout=9300000000":        "parameter dial_timeout must be",
		"redis+sentinel://localhost:26379":         "master_name",
		"redis+sentinel://localhost?master_name=":  "master_name",
		"redis+cluster://localhost?addr=no-port":   "addr",
		"redis://user:se/cret@localhost":           "%2F",
		"redis://:12/34@localhost":                 "%2F",
		"redis://:12?34@localhost":                 "%3F",
		"redis://:12#34@localhost":                 "%23",
		"redis://:%zz@localhost":                   "cannot be read",
		"unix://":                                  "socket",
		"redis://localhost\x00":                    "cannot be read",
		"redis+sentinel://h?master_name=m&db=many": "parameter db must be",
	} {
		t.Run(raw, func(t *testing.T) {
			c, err := Dial(raw, nil)
			if err == nil {
				c.Close()
				t.Fatal("accepted")
			}
			if !strings.HasPrefix(err.Error(), "counter: Redis URL ") || !strings.Contains(err.Error(), says) {
				t.Errorf("%v: want %q in it", err, says)
			}
		})
	}
}

// urlForms are well-formed and malformed URLs; %s is where the password goes.
var urlForms = []string{
	"redis://:%s@localhost:6379/0", "redis://user:%s@localhost", "rediss://user:%s@[::1]:6379",
	"unix://user:%s@/run/redis.sock",
	"redis+sentinel://:%s@localhost:26379?master_name=m", "redis+sentinel://:%s@localhost",
	"redis+cluster://:%s@localhost?addr=x",
	"redis://:%s@localhost/zero", "redis://:%s@localhost/0/1", "redis://:%s@localhost:port",
	"redis://:%s@localhost?no_such=1",
	"redis://:%s@localhost?read_timeout=soon", "redis://:%s@local host", "redis://:%s@%%zz", "redis://:%s@",
	"redis://:%s@:6379:6379",
	"redis://user:pass:%s@localhost", "redis://user:@%s@localhost", "http://:%s@localhost", "redis:// :%s@localhost",
	"redis:/:%s@localhost",
	"redis:///:%s@localhost", "://:%s@localhost", ":%s@localhost", "redis:%s@localhost:6379", "user:%s@localhost://",
	"redis://:%s@localhost\x7f",
	"redis+ring://:%s@localhost", "red is://:%s@localhost", "redis://12:%s@localhost", "redis://1/%s@localhost",
	"redis://1?%s@localhost",
}

// FuzzDialRedacts: whatever the URL and the password in it, no error shows the password.
func FuzzDialRedacts(f *testing.F) {
	for form := range urlForms {
		for _, around := range []string{"", "/", "?", "#", "@", "%", ":", "://", "[", "1/", "\"", " ", "\n", "&=", "%zz",
			"1?addr="} {
			f.Add(uint(form), around, around, false)
			f.Add(uint(form), around, around, true)
		}
	}
	f.Fuzz(func(t *testing.T, form uint, before, after string, escaped bool) {
		const secret = "Xq7vSecretZk9"
		password := before + secret + after
		if escaped {
			password = url.QueryEscape(password)
		}
		raw := fmt.Sprintf(urlForms[form%uint(len(urlForms))], password)
		c, err := Dial(raw, &Options{TTL: -1}) // so that good URLs are refused too, and nothing is left open
		if err == nil {
			c.Close()
			t.Fatalf("%q: accepted with a negative TTL", raw)
		}
		if strings.Contains(err.Error(), secret) {
			t.Errorf("%q: %v", raw, err)
		}
	})
}
