package counter

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestExamineServer(t *testing.T) {
	sound := map[string]string{
		"redis_version": "7.0.15", "role": "master", "used_memory": "1000000", "maxmemory": "0",
		"maxmemory_policy": "noeviction",
		"aof_enabled":      "1", "rdb_last_bgsave_status": "ok", "aof_last_bgrewrite_status": "ok",
		"aof_last_write_status": "ok",
		goodReplicas:            "1",
	}
	for name, tc := range map[string]struct {
		fields map[string]string
		saves  bool
		want   string
	}{
		"sound":                {nil, true, ""},
		"tells nothing":        {map[string]string{"": ""}, true, ""},
		"6.0":                  {map[string]string{"redis_version": "6.0.16"}, true, ""},
		"5.0":                  {map[string]string{"redis_version": "5.0.14"}, true, "store-version!"},
		"version that is none": {map[string]string{"redis_version": "unstable"}, true, ""},
		"replica": {map[string]string{"role": "slave", "master_host": "10.0.0.1", "master_port": "6379"}, true,
			"store-replica!"},
		"evicts":           {map[string]string{"maxmemory_policy": "volatile-lru"}, true, "store-evicts"},
		"half full":        {map[string]string{"maxmemory": "2000000"}, true, ""},
		"nearly full":      {map[string]string{"maxmemory": "1100000"}, true, "store-memory"},
		"full":             {map[string]string{"maxmemory": "1000000"}, true, "store-memory!"},
		"saves nothing":    {map[string]string{"aof_enabled": "0"}, false, "store-volatile"},
		"too few replicas": {map[string]string{goodReplicas: "0"}, true, "store-few-replicas!"},
		"enough replicas":  {map[string]string{goodReplicas: "1"}, true, ""},
		"saving fails":     {map[string]string{"rdb_last_bgsave_status": "err"}, true, "store-save-failed!"},
		"all together": {map[string]string{"role": "slave", "maxmemory": "1000001", "maxmemory_policy": "allkeys-lru"}, false,
			"store-replica! store-evicts store-memory store-volatile"},
	} {
		t.Run(name, func(t *testing.T) {
			var text strings.Builder
			for k, v := range sound {
				if over, given := tc.fields[k]; given {
					v = over
				}
				if _, nothing := tc.fields[""]; !nothing {
					fmt.Fprintf(&text, "%s:%s\r\n", k, v)
				}
			}
			var got []string
			var least uint64
			if tc.fields[goodReplicas] != "" {
				least = 1
			}
			info := serverInfo{text: text.String(), at: "h:1", savesNothing: !tc.saves, leastReplicas: least}
			for _, f := range info.findings() {
				code := f.Code
				if f.Severe {
					code += "!"
				}
				got = append(got, code)
				if f.Seen == "" || f.Impact == "" || f.Fix == "" {
					t.Errorf("incomplete: %+v", f)
				}
			}
			if s := strings.Join(got, " "); s != tc.want {
				t.Errorf("got %q, want %q", s, tc.want)
			}
		})
	}
}

// The fix gives a user every command of the scripts and the commands that Counter sends itself. It also gives ZCARD,
// which the clients in other languages send.
func TestNeededCommandsAreTheScripts(t *testing.T) {
	used := map[string]bool{}
	for _, name := range []string{"ping", "evalsha", "eval", "zrevrangebyscore", "zcount", "zcard"} {
		used[name] = true
	}
	for _, source := range []string{
		recordLua, startLua, failLua, endLua, controlLua, loadLua, saveLua,
	} {
		for _, call := range strings.Split(strings.ReplaceAll(source, "try('", "call('"), "call('")[1:] {
			name, _, _ := strings.Cut(call, "'")
			used[strings.ToLower(name)] = true
		}
	}
	listed := map[string]bool{}
	for _, command := range needed {
		name, _, _ := strings.Cut(command, " ")
		listed[name] = true
	}
	if diff := cmp.Diff(used, listed); diff != "" {
		t.Errorf("-used +listed:\n%s", diff)
	}
}
