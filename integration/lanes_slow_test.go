package integration

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/internal/servertest"
)

// TestSlowLane: an attempt in one lane takes longer than lane replay --all waits. The replay goes on with the other
// lanes. Without a consumer all lanes wait, so the replay ends with the first. The test is not parallel: a handler that
// does not end delays the isolated attempts of other tests, and these delay all handlers of the process.
func TestSlowLane(t *testing.T) {
	program := servertest.Program(t, "cmd/strikes")
	s := newShared(t, 2)
	s.fails = func(string, string) error { return consumer.Reject(errors.New("bad")) }
	stop := s.consume(func(c *consumer.Consumer) { c.HoldLanes = true })
	s.publish("a 1")
	s.eventually("a dead letter", func() bool { return queueDepth(t, s.queue+".dlq") == 1 })
	s.publish("b 1", "c 1", "b 2", "c 2")
	s.eventually("five dead letters", func() bool { return queueDepth(t, s.queue+".dlq") == 5 })
	ready := make(chan struct{})
	goOn := sync.OnceFunc(func() { close(ready) })
	t.Cleanup(goOn)
	s.now(func(key, _ string) error {
		if key == "a" {
			<-ready
			return consumer.Reject(errors.New("bad"))
		}
		return nil
	})
	replay := func() string {
		cmd := exec.Command(program, "lane", "replay", s.queue, "--all", "--yes", "--wait", "3s", "--why", "test")
		cmd.Env = append(os.Environ(), "STRIKES_AMQP_URL="+brokerURL(t), "STRIKES_STORE_URL="+patientURL(t),
			"STRIKES_PREFIX="+s.prefix, "STRIKES_MANAGEMENT_URL="+managementURL(t))
		said, err := cmd.CombinedOutput()
		if err == nil {
			t.Errorf("a lane stays blocked, and the command succeeds: %s", said)
		}
		return string(said)
	}
	said := replay()
	for _, want := range []string{"lane a is still blocked: 1 replayed", "lane b is released: 2 replayed",
		"lane c is released: 2 replayed", "1 of 3 lanes"} {
		if !strings.Contains(said, want) {
			t.Errorf("got %q, want %q", said, want)
		}
	}
	goOn()
	s.eventually("it is dead again", func() bool { return queueDepth(t, s.queue+".dlq") == 1 })
	stop()
	said = replay()
	if !strings.Contains(said, "lane a is still blocked: 1 replayed") || strings.Contains(said, "1 of 1") {
		t.Errorf("without a consumer: %q", said)
	}
}
