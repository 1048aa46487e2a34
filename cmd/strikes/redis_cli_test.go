package main

import "testing"

func TestRedisCLI(t *testing.T) {
	tests := []struct{ url, key, want string }{
		{"redis://127.0.0.1:6379/0", "a:{%2F/q}:r:1", `redis-cli -u redis://127.0.0.1:6379/0 DEL 'a:{%2F/q}:r:1'`},
		{"redis://:hush@host/2?read_timeout=1s", "k", `redis-cli -u redis://host/2 --askpass DEL k`},
		{"rediss://jo:hush@host:6380", "k", `redis-cli -u rediss://host:6380 --user jo --askpass DEL k`},
		{"redis://host?db=3", "k", `redis-cli -u redis://host/3 DEL k`},
		{"redis://[::1]:6379", "it's", `redis-cli -u 'redis://[::1]:6379' DEL 'it'\''s'`},
		{"redis+cluster://:hush@host:7000?addr=host2:7001", "k", `redis-cli DEL k`},
		{"unix:///run/redis.sock", "k", `redis-cli DEL k`},
	}
	for _, tt := range tests {
		if got := redisCLI(tt.url, "DEL", tt.key); got != tt.want {
			t.Errorf("of %s: %s, want %s", tt.url, got, tt.want)
		}
	}
}
