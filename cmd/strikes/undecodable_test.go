package main

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/strikesmq/strikes/internal/status"
)

func TestUndecodableFinding(t *testing.T) {
	noon := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	earlierBy := func(d time.Duration) time.Time { return noon.Add(-d) }
	u := &status.Undecodable{
		Sessions: 7, Since: earlierBy(time.Minute), Last: earlierBy(3 * time.Second),
		After: "m\x1b4", Holder: "host\x07, pid 7", Error: "consumer: a message cannot be decoded: queue \"orders\": its headers\x1b",
	}
	f := undecodableFinding(u, noon, "/", "orders", "http://ops:s3cret@mq:15672")
	if f.Severity != "error" || !strings.Contains(f.Seen, "7 sessions") || !strings.Contains(f.Seen, "its headers") || f.Command == "" ||
		strings.ContainsAny(f.Seen, "\x1b\x07") || strings.Contains(f.Command, "s3cret") {
		t.Errorf("finding: %+v", f)
	}
	if f := undecodableFinding(u, noon.Add(5*time.Minute), "/", "orders", "http://mq:15672"); f.Severity != "warning" || f.Command != "" {
		t.Errorf("when it is gone: %+v", f)
	}
	if f := undecodableFinding(u, noon, "/", "orders", ""); f.Severity != "error" || f.Command != "" {
		t.Errorf("without the API's address: %+v", f)
	}
}

// TestRejectHeadSurvivesAShell has a shell split the command.
func TestRejectHeadSurvivesAShell(t *testing.T) {
	for queue, path := range map[string]string{
		"orders": "/api/queues/%2F/orders/get", "it's $HOME `x` \"y\" @/é": "/api/queues/%2F/it%27s%20$HOME%20%60x%60%20%22y%22%20@%2F%C3%A9/get",
	} {
		command := rejectHead("/", queue, "https://ops:s3cret@mq:15671")
		words, err := exec.Command("sh", "-c", `for w in `+strings.TrimPrefix(command, "curl ")+`; do printf '%s\n' "$w"; done`).Output()
		want := "-u\nops\n-d\n{\"count\":1,\"ackmode\":\"reject_requeue_false\",\"encoding\":\"auto\",\"truncate\":100}\nhttps://mq:15671" + path + "\n"
		if err != nil || string(words) != want {
			t.Errorf("%q, %v; want %q", words, err, want)
		}
	}
	if command := rejectHead("/", "q", "http://a'b:c@mq:15672"); !strings.HasPrefix(command, "curl -u USER ") {
		t.Error(command)
	}
}
