package bench

import (
	"bytes"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

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
	for contest, n := range map[string]int{success: 8, failing: 24, ordered: 10} {
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
