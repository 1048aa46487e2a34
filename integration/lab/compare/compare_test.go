package compare

import (
	"bytes"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9/logging"
	"go.uber.org/goleak"

	"github.com/strikesmq/strikes/integration/internal/fleet"
	"github.com/strikesmq/strikes/integration/lab/ways"
	"github.com/strikesmq/strikes/internal/servers"
	"github.com/strikesmq/strikes/internal/servertest"
)

// TestMain makes this test binary a consumer process where it is started as one.
func TestMain(m *testing.M) {
	logging.Disable()
	fleet.Main(runWorker)
	goleak.VerifyTestMain(m)
}

// TestCompare runs three ways under a few faults. Their losses are left to chance, but the promises of strikes are
// not.
func TestCompare(t *testing.T) {
	servertest.Long(t)
	url := os.Getenv("AMQP_URL")
	if url == "" {
		broker, err := servers.StartRabbitMQ(t.Context(), servers.RabbitMQOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer broker.Close()
		url = broker.URL
	}
	args := []string{"-type", ways.Quorum, "-messages", "60", "-faults", "3", "-seed", "3", "-patience", "30s",
		"-amqp", url}
	const lost, innocents, goodDead, resumed = 2, 6, 3, 7
	rows := small(t, append(args, "-only", "bare", "-parts", "faults"))
	maps.Copy(rows, small(t, append(args, "-only", "delivery-limit,strikes", "-parts", "killer,faults")))
	away := small(t, append(args, "-only", "incr,strikes-breaker", "-parts", "outage", "-away", "4s"))
	if got := away["incr"]; got == nil || got[goodDead] == "0" {
		t.Errorf("the loop without a breaker dead-lettered no good message in an outage: %q", away)
	}
	if got := away["strikes-breaker"]; got == nil || got[lost] != "0" || got[goodDead] != "0" || got[resumed] == "no" {
		t.Errorf("with a breaker a good message was dead-lettered in an outage, or none succeeded after it: %q", away)
	}
	if got := rows["bare"]; got == nil || got[lost] == "0" {
		t.Errorf("the loop that acks failures lost nothing: %q", rows)
	}
	if got := rows["strikes"]; got == nil || got[lost] != "0" || got[innocents] != "0" || !slices.Contains(got, "ended") {
		t.Errorf("strikes lost a message, dead-lettered a healthy one, or did not end a killer: %q", rows)
	}
	if rows["delivery-limit"] == nil {
		t.Errorf("a row is missing: %q", rows)
	}
}

// small runs a comparison and returns the words of each way's row.
func small(t *testing.T, args []string) map[string][]string {
	t.Helper()
	c, err := parseFlags(args)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := compare(t.Context(), c, &out); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	rows := map[string][]string{}
	for line := range strings.Lines(out.String()) {
		if words := strings.Fields(line); len(words) > 5 {
			rows[words[0]] = words
		}
	}
	return rows
}
