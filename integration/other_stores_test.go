package integration

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/strikesmq/strikes/integration/internal/rig"
	"github.com/strikesmq/strikes/internal/servertest"
	"github.com/strikesmq/strikes/topology"
)

// eachOtherStore runs a test on each store that is a module of its own, at the URL of a database.
func eachOtherStore(t *testing.T, test func(t *testing.T, name, url string)) {
	t.Parallel()
	for name, addr := range map[string]func(testing.TB) string{"postgres": servertest.PostgreSQL,
		"mysql": servertest.MariaDB} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, err := rig.Databases[name].Prepare(t.Context(), addr(t))
			need(t, err)
			test(t, name, url)
		})
	}
}

// TestOtherStores takes the steps of TestSteps on the other stores, and has three processes share a count.
func TestOtherStores(t *testing.T) {
	eachOtherStore(t, func(t *testing.T, name, url string) {
		testCounter(t, name, url, "-run=^TestSteps$")
		spec, c := newChildOn(t, declared(t, topology.Quorum), url, url)
		shareOneCount(t, spec, c)
	})
}

var modelRuns = flag.Int("stores.runs", 100, "runs of each model in TestOtherStoresWhole")

// TestOtherStoresWhole runs the tests of package counter on the other stores: the models, the steps of spec/v1, the
// lists and the changes of operators. Those that it leaves out are about miniredis alone. For a long run:
// STRIKES_LONG=1 go test ./integration -run OtherStoresWhole -timeout 2h -stores.runs 1000
func TestOtherStoresWhole(t *testing.T) {
	servertest.Long(t)
	eachOtherStore(t, func(t *testing.T, name, url string) {
		testCounter(t, name, url, "-skip=^(TestBreakerModel|TestModelFindsFaults|TestSpecRunnerFails)$",
			fmt.Sprint("-rapid.checks=", *modelRuns))
	})
}

// testCounter runs tests of package counter on another store. They use unexported names, and the package's module must
// not require a driver, so -overlay adds the file of testdata to the package.
func testCounter(t *testing.T, name, url string, flags ...string) {
	t.Helper()
	file, err := os.ReadFile("testdata/other_store_test.go")
	need(t, err)
	added, overlay := filepath.Join(t.TempDir(), "other_test.go"), filepath.Join(t.TempDir(), "overlay.json")
	need(t, os.WriteFile(added, []byte(strings.ReplaceAll(string(file), "store/postgres", "store/"+name)), 0o600))
	place, err := filepath.Abs("../counter/other_store_test.go")
	need(t, err)
	text, err := json.Marshal(map[string]any{"Replace": map[string]string{place: added}})
	need(t, err)
	need(t, os.WriteFile(overlay, text, 0o600))
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"test", "-count=1", "-timeout=2h", "-overlay=" + overlay,
		"../counter"}, flags...)...)
	cmd.Env = append(os.Environ(), "STRIKES_STORE_URL="+url, "REDIS_URL=")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
