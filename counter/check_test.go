package counter

import (
	"errors"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
)

// fakeStore returns the Counter of a fake Redis that replies to INFO and CONFIG GET save with these texts; a text that
// begins with "-" is an error.
func fakeStore(t *testing.T, info, save string) *Counter {
	t.Helper()
	fake := miniredis.RunT(t)
	fake.Server().SetPreHook(func(to *server.Peer, cmd string, args ...string) bool {
		replies := map[string]string{"INFO": info, "CONFIG": save}
		text, asked := replies[cmd]
		switch {
		case !asked:
			return false
		case strings.HasPrefix(text, "-"):
			to.WriteError(text[1:])
		case cmd == "INFO":
			to.WriteBulk(text)
		default:
			to.WriteMapLen(1)
			to.WriteBulk("save")
			to.WriteBulk(text)
		}
		return true
	})
	return dialTest(t, "redis://"+fake.Addr())
}

func TestCheck(t *testing.T) {
	info := func(policy, aof string) string {
		return "# Memory\r\nused_memory:1\r\nmaxmemory_policy:" + policy +
			"\r\n\r\n# Persistence\r\nloading:0\r\naof_enabled:" + aof + "\r\n"
	}
	const snapshots = "3600 1 300 100"
	denied := func(command string) string {
		return "-NOPERM this user has no permissions to run the '" + command + "' command"
	}
	for name, tc := range map[string]struct {
		info, save string
		want       []string // a word of each warning
	}{
		"as asked":                     {info("noeviction", "1"), "", nil},
		"snapshots only":               {info("noeviction", "0"), snapshots, nil},
		"evicts":                       {info("allkeys-lru", "1"), snapshots, []string{"allkeys-lru"}},
		"evicts what has a TTL":        {info("volatile-ttl", "1"), snapshots, []string{"volatile-ttl"}},
		"nothing on disk":              {info("noeviction", "0"), "", []string{"appendonly"}},
		"both":                         {info("allkeys-random", "0"), "", []string{"allkeys-random", "appendonly"}},
		"INFO denied":                  {denied("info"), "", nil},
		"CONFIG denied":                {info("noeviction", "0"), denied("config"), nil},
		"both denied":                  {denied("info"), denied("config"), nil},
		"a managed service, no INFO":   {"-ERR unknown command 'info'", "", nil},
		"fields that are not there":    {"# Memory\r\n", "", nil},
		"CONFIG denied, and it evicts": {info("volatile-lru", "0"), denied("config"), []string{"volatile-lru"}},
	} {
		t.Run(name, func(t *testing.T) {
			warnings, err := fakeStore(t, tc.info, tc.save).Check(t.Context())
			if err != nil || len(warnings) != len(tc.want) {
				t.Fatalf("%q, %v, want %d warnings", warnings, err, len(tc.want))
			}
			for i, word := range tc.want {
				if !strings.Contains(warnings[i], word) {
					t.Errorf("%q does not say %q", warnings[i], word)
				}
			}
		})
	}
}

// A Redis that cannot save refuses even a PING: it is asked all the same, so that the operator reads why.
func TestCheckThatCannotSave(t *testing.T) {
	fake := miniredis.RunT(t)
	fake.Server().SetPreHook(func(to *server.Peer, cmd string, _ ...string) bool {
		switch cmd {
		case "PING":
			to.WriteError("MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk")
		case "INFO":
			to.WriteBulk("# Persistence\r\naof_enabled:0\r\nrdb_last_bgsave_status:err\r\n")
		case "CONFIG":
			to.WriteError("NOPERM this user has no permissions to run the 'config' command")
		case "EVAL", "EVALSHA": // which commands this user lacks
			to.WriteLen(0)
		default:
			return false
		}
		return true
	})
	counts := dialTest(t, "redis://"+fake.Addr())
	warnings, err := counts.Check(t.Context())
	if err != nil || len(warnings) != 1 || !strings.Contains(warnings[0], "MISCONF") {
		t.Errorf("Check: %q, %v", warnings, err)
	}
	found, err := counts.Admin().Examine(t.Context())
	if err != nil || len(found) != 1 || found[0].Code != "store-save-failed" {
		t.Errorf("Examine: %+v, %v", found, err)
	}
}

// TestCheckOfACluster: one master of a Cluster is refused, and a proxy that answers for all of them is not.
func TestCheckOfACluster(t *testing.T) {
	for name, forwards := range map[string]bool{"a master": false, "a proxy": true} {
		t.Run(name, func(t *testing.T) {
			fake := miniredis.RunT(t)
			fake.Server().SetPreHook(func(to *server.Peer, cmd string, args ...string) bool {
				switch {
				case cmd == "INFO":
					to.WriteBulk("redis_mode:cluster\r\ncluster_enabled:1\r\n")
				case cmd == "PTTL" && !forwards && strings.HasSuffix(args[0], "5}"):
					to.WriteError("MOVED 1234 127.0.0.1:1")
				default:
					return false
				}
				return true
			})
			_, err := dialTest(t, "redis://"+fake.Addr()).Check(t.Context())
			if forwards && err != nil || !forwards && !errors.Is(err, errCluster) {
				t.Errorf("got %v", err)
			}
		})
	}
}
