package compare

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9/logging"
	"go.uber.org/goleak"

	"github.com/strikesmq/strikes/integration/internal/ledger"
	"github.com/strikesmq/strikes/integration/internal/rig"
	"github.com/strikesmq/strikes/integration/internal/work"
	"github.com/strikesmq/strikes/integration/lab/ways"
	"github.com/strikesmq/strikes/internal/servers"
	"github.com/strikesmq/strikes/internal/servertest"
)

// TestMain makes this test binary a consumer process where it is started as one.
func TestMain(m *testing.M) {
	logging.Disable()
	Worker()
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
	const lost, innocents, goodDead, resumed = 2, 7, 3, 7
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

func TestRotation(t *testing.T) {
	servertest.Long(t)
	for commands, want := range map[string]int{"": 0, "kill it": 1} {
		kinds, err := rotation(&rig.Broker{Node: &rig.Node{KillCommand: commands}})
		if err != nil {
			t.Fatal(err)
		}
		broker := 0
		for _, k := range kinds {
			if k.Name == ledger.BrokerKill {
				broker++
			}
		}
		if len(kinds) != 11+want || broker != want || len(onProcesses(kinds)) != 9 {
			t.Errorf("%d kinds, %d of them kill the broker, %d are on processes", len(kinds), broker, len(onProcesses(kinds)))
		}
	}
}

func TestPlan(t *testing.T) {
	servertest.Long(t)
	jobs := plan(1000, mix{fail: 0.2, poison: 0.1, killers: 1, fastest: 5, spread: 2}, rand.New(rand.NewPCG(1, 1)))
	n := map[string]int{}
	for i, j := range jobs {
		n[j.Do]++
		if j.Seq != i+1 || j.Ms < 5 || j.Ms > 7 || (j.Do == ledger.Fail) != (j.Times >= 1 && j.Times <= ways.Retries) {
			t.Errorf("message %d: %+v", i+1, j)
		}
	}
	if n[ledger.Kill] != 1 || n[ledger.Fail] < 150 || n[ledger.Fail] > 250 || n[ledger.Poison] < 60 ||
		n[ledger.Poison] > 140 {
		t.Errorf("%v", n)
	}
}

func TestFlakyJobsSucceedAtLast(t *testing.T) {
	servertest.Long(t)
	dir := t.TempDir()
	j := work.Job{Seq: 1, Do: ledger.Fail, Times: 2}
	for i, want := range []bool{false, false, true, true} {
		if got := do(j, dir) == nil; got != want {
			t.Errorf("attempt %d: succeeded %v, want %v", i+1, got, want)
		}
	}
	if err := do(j, filepath.Join(dir, "missing")); errors.Is(err, context.Canceled) || err == nil {
		t.Errorf("a count that cannot be written: %v", err)
	}
}

func TestFlags(t *testing.T) {
	servertest.Long(t)
	for _, args := range []string{
		"-only nothing", "-type stream", "-parts all", "-messages 0", "-patience 0", "-faults -1", "-broker-kill x",
		"-broker-kill x -broker-start y", "-away 0s", "more",
	} {
		if _, err := parseFlags(strings.Fields(args)); err == nil {
			t.Errorf("%s is accepted", args)
		}
	}
	c, err := parseFlags(strings.Fields("-only strikes,incr -type quorum -parts order"))
	if diff := cmp.Diff([][]string{{"strikes", "incr"}, {"quorum"}, {"order"}},
		[][]string{c.only, c.types, c.parts}); err != nil || diff != "" || c.seed == 0 {
		t.Errorf("%v %+v\n%s", err, c, diff)
	}
}

// A table has the columns of its parts alone.
func TestShownColumns(t *testing.T) {
	servertest.Long(t)
	for parts, want := range map[string]string{
		"killer":       "LOST, INNOCENTS, KILLER",
		"outage":       "LOST, GOOD-DEAD, ATTEMPTS, RESUMED",
		"order,killer": "LOST, INNOCENTS, INVERSIONS, KILLER",
	} {
		c, err := parseFlags([]string{"-parts", parts})
		if err != nil {
			t.Fatal(err)
		}
		var titles []string
		for _, of := range c.shown() {
			titles = append(titles, of.title)
		}
		if got := strings.Join(titles, ", "); got != want {
			t.Errorf("-parts %s shows %s, want %s", parts, got, want)
		}
	}
}
