package integration

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/servertest"
	"github.com/strikesmq/strikes/publisher"
	"github.com/strikesmq/strikes/topology"
)

// An example of docs/push.md: the name and the text of a file, and the commands that use it.
var pushExample = regexp.MustCompile("(?s)`(\\w+\\.\\w+)`[^`]*:\n\n```(\\w+)\n(.*?)```\n\n```sh\n(.*?)```")

// TestPushDocument runs the endpoints of docs/push.md, each with its commands, on the same six orders.
func TestPushDocument(t *testing.T) {
	servertest.Long(t)
	t.Parallel()
	strikes := servertest.Program(t, "cmd/strikes")
	examples := pushExample.FindAllStringSubmatch(read(t, "../docs/push.md"), -1)
	if len(examples) != 3 {
		t.Fatalf("%d examples", len(examples))
	}
	for _, m := range examples {
		file, language, text, commands := m[1], m[2], m[3], m[4]
		t.Run(language, func(t *testing.T) {
			program := map[string]string{"python": "python3", "javascript": "node", "java": "java"}[language]
			if _, err := exec.LookPath(program); err != nil {
				if language == "java" {
					t.Skipf("%s is not installed", program)
				}
				t.Fatal(err)
			}
			dir := t.TempDir()
			need(t, os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600))
			sixOrders(t, dir, strikes, commands)
		})
	}
}

// sixOrders publishes six orders and runs the commands of a document: order 4 fails, order 5 is rejected.
func sixOrders(t *testing.T, dir, strikes, commands string) {
	t.Helper()
	queue, prefix := declared(t, topology.Quorum), uniqueName(t, "strikes")
	for i := range 6 {
		body := fmt.Sprint("order ", i+1)
		publishAll(t, publisher.Message{Key: queue, Publishing: amqp.Publishing{MessageId: body, Body: []byte(body)}})
	}
	_, port, _ := strings.Cut(freeAddress(t), ":")
	commands = strings.NewReplacer("8000", port, "consume orders", "consume "+queue).Replace(commands)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", commands+"code=$?; kill $(jobs -p); wait; exit $code\n")
	cmd.Dir, cmd.WaitDelay = dir, time.Second
	cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(strikes)+":"+os.Getenv("PATH"), "AMQP_URL="+brokerURL(t),
		"REDIS_URL="+redisURL(t),
		"STRIKES_MANAGEMENT_URL="+managementURL(t), "STRIKES_PREFIX="+prefix, "STRIKES_EXIT_WHEN_IDLE=3s")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	c := ofPrefix(t, prefix)
	for id, want := range map[string]struct {
		failures int
		cause    counter.Cause
		reason   string
	}{
		"order 4": {3, counter.CauseFailed, "HTTP 500 Internal Server Error: no stock"},
		"order 5": {1, counter.CauseRejected, "HTTP 422 Unprocessable Entity: no such customer"},
	} {
		if r := one(t, c, queue, id); r.State != counter.StateDeadLetter || r.Failures != want.failures ||
			r.Cause != want.cause || r.Reason != want.reason {
			t.Errorf("%s: %d failures, %s, %q", id, r.Failures, r.Cause, r.Reason)
		}
	}
	if left, dead := queueDepth(t, queue), queueDepth(t, queue+".dlq"); left != 0 || dead != 2 {
		t.Errorf("%d messages are left, %d are dead letters", left, dead)
	}
}
