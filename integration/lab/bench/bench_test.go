package bench

import (
	"bytes"
	"context"
	"errors"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/strikesmq/strikes/integration/internal/rig"
	"github.com/strikesmq/strikes/internal/servers"
	"github.com/strikesmq/strikes/internal/servertest"
)

var need = servertest.Need

func TestMain(m *testing.M) { os.Exit(servertest.Run(m)) }

// TestQuick runs every contest once, with few messages. The tallies check that every contestant settled every message;
// how fast anything was does not matter.
func TestQuick(t *testing.T) {
	servertest.Long(t)
	c, err := parseFlags([]string{"-messages", "100", "-rounds", "1", "-failing", "0,10"})
	need(t, err)
	b, all := &bench{config: c}, cases(c)
	defer func() { need(t, b.close()) }()
	need(t, b.run(t.Context(), all))
	met := map[string]int{}
	for _, c := range all {
		if met[c.contest]++; len(c.rates) != 1 || c.rates[0] <= 0 || c.messages != 100 {
			t.Errorf("%s: rates %v of %d messages", c, c.rates, c.messages)
		}
	}
	for contest, n := range map[string]int{success: 8, failing: 24, ordered: 10, pushing: 8} {
		if met[contest] != n {
			t.Errorf("%s: %d cases, want %d", contest, met[contest], n)
		}
	}
	var out bytes.Buffer
	need(t, b.print(&out, all))
	if n := strings.Count(out.String(), "\n"); n < len(all) {
		t.Errorf("%d lines for %d cases:\n%s", n, len(all), &out)
	}
}

// TestInterrupted stops a bench in the middle.
func TestInterrupted(t *testing.T) {
	servertest.Long(t)
	c, err := parseFlags([]string{"-only", failing, "-messages", "20000"})
	need(t, err)
	ctx, stop := context.WithTimeout(t.Context(), 15*time.Second)
	defer stop()
	b := &bench{config: c}
	if err := b.run(ctx, cases(c)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("it ended with %v", err)
	}
	need(t, b.close())
}

// TestNothingFailsForSoundRows: HoldLanes without a blocked lane, and DelayAbove without a long delay, are measured
// without failures only.
func TestNothingFailsForSoundRows(t *testing.T) {
	c, err := parseFlags(nil)
	need(t, err)
	met := map[string]int{}
	for _, c := range cases(c) {
		if c.sound {
			met[c.contest]++
			if c.failing > 0 {
				t.Errorf("%s fails", c)
			}
		}
	}
	if met[success] != 2 || met[failing] != 2 || met[ordered] != 2 {
		t.Errorf("cases: %v, want 2 for each of %s, %s, %s", met, success, failing, ordered)
	}
}

func TestRatiosAreTakenRoundByRound(t *testing.T) {
	of, to := &Case{}, &Case{}
	for _, messages := range [][2]int{{100, 50}, {10, 10}, {30, 20}} { // the second round was a slow one for both
		of.add(sample{messages: messages[0], took: time.Second})
		to.add(sample{messages: messages[1], took: time.Second})
	}
	if got := ratios(of, to); !slices.Equal(got, []float64{2, 1, 1.5}) {
		t.Errorf("%v", got)
	}
	if got := median([]float64{4, 1, 3, 2}); math.Abs(got-2.5) > 1e-9 {
		t.Errorf("the median of an even number is %v", got)
	}
}

func TestPrint(t *testing.T) {
	row := func(name string) row { return row{contest: failing, name: name} }
	all := []*Case{{row: row(strikes), queue: "quorum", failing: 10, rates: []float64{9000}, messages: 3000},
		{row: row("by hand"), queue: "quorum", failing: 10, rates: []float64{6000}, messages: 1000,
			used: cpu{50 * time.Millisecond, 3 * time.Millisecond, 20 * time.Millisecond}}}
	var out bytes.Buffer
	b := &bench{broker: &rig.Broker{Version: "4.0"}, store: &rig.Store{One: &servers.Redis{Version: "7"}}}
	need(t, b.print(&out, all))
	for _, want := range []string{
		"failing  quorum  10%      9000       by hand  6000   1.50   1.50-1.50\n",
		"failing  quorum  10%      by hand     50      3      20      73\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
}

func TestFlagsAreChecked(t *testing.T) {
	for _, args := range []string{
		"-only speed", "-only ,", "-type stream", "-failing some", "-failing -1", "-failing 101", "-messages 10",
		"-rounds -1", "-time 0s", "more",
	} {
		if _, err := parseFlags(strings.Fields(args)); err == nil {
			t.Errorf("%q is accepted", args)
		}
	}
	for _, args := range []string{"", "-failing 0", "-failing 0,10 -type quorum -only success,push"} {
		if _, err := parseFlags(strings.Fields(args)); err != nil {
			t.Errorf("%q: %v", args, err)
		}
	}
}
