package integration

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/strikesmq/strikes/integration/internal/rig"
	"github.com/strikesmq/strikes/internal/servertest"
	"github.com/strikesmq/strikes/topology"
)

// eachOtherStore runs a test on each store that is a module of its own, at the URL of a database.
func eachOtherStore(t *testing.T, test func(t *testing.T, url string)) {
	t.Parallel()
	for name, addr := range map[string]func(testing.TB) string{"postgres": servertest.PostgreSQL,
		"mysql": servertest.MariaDB} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, err := rig.Databases[name].Prepare(t.Context(), addr(t))
			need(t, err)
			test(t, url)
		})
	}
}

// TestOtherStores takes the steps of TestSteps on the other stores, and has three processes share a count.
func TestOtherStores(t *testing.T) {
	eachOtherStore(t, func(t *testing.T, url string) {
		testCounter(t, url, "-test.run=^TestSteps$")
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
	eachOtherStore(t, func(t *testing.T, url string) {
		testCounter(t, url, "-test.skip=^(TestBreakerModel|TestModelFindsFaults|TestSpecRunnerFails)$",
			fmt.Sprint("-rapid.checks=", *modelRuns))
	})
}

// testCounter runs tests of package counter on another store. They use unexported names, and the package's module must
// not require a driver, so -overlay adds the file of testdata to the package.
func testCounter(t *testing.T, url string, flags ...string) {
	t.Helper()
	overlay := filepath.Join(t.TempDir(), "overlay.json")
	text, err := json.Marshal(map[string]any{"Replace": map[string]string{
		absolute(t, "../counter/other_store_test.go"): absolute(t, "testdata/other_store_test.go")}})
	need(t, err)
	need(t, os.WriteFile(overlay, text, 0o600))
	tests := servertest.Build(t, "counter.test", "test", "-c", "-overlay="+overlay, "../counter")
	cmd := exec.CommandContext(t.Context(), tests, append(flags, "-test.timeout=2h")...)
	cmd.Dir, cmd.Env = "../counter", append(os.Environ(), "STRIKES_STORE_URL="+url, "REDIS_URL=")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
