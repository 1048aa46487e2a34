package integration

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/integration/internal/rig"
	"github.com/strikesmq/strikes/internal/panics"
	"github.com/strikesmq/strikes/internal/proctest"
	"github.com/strikesmq/strikes/internal/servers"
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

// TestLostReplies loses the replies of a database to COMMITs that it has made, and cuts connections at any moment. A
// step whose reply was lost is repeated, as consumers do, and each failure counts once.
func TestLostReplies(t *testing.T) {
	eachOtherStore(t, func(t *testing.T, rawURL string) {
		link, behind := proxied(t, rawURL)
		prefix := uniqueName(t, "lost")
		direct := failer{t, counterOn(t, rawURL, prefix)}
		through := failer{t, counterOn(t, behind, prefix)}
		const messages, rounds = 4, 30
		lost, repeated := 0, 0
		for round := 1; round <= rounds; round++ {
			eventually(t, "a connection", func() bool {
				return errOf(through.Admin().Get(t.Context(), "/", "q", "0")) == nil // the pool may have one that was cut
			})
			var failing panics.Group
			errs, ended := make([]error, messages), atomic.Int32{}
			late := round%2 == 0
			if late {
				link.Delay(100 * time.Millisecond)
			}
			for i := range messages {
				failing.Go(func() error {
					_, errs[i] = through.fail(i, round)
					ended.Add(1)
					return nil
				})
			}
			if late { // the reply to a COMMIT is still on its way when the failures are counted
				eventually(t, "the COMMITs", func() bool {
					return direct.counted(messages-1) == round || ended.Load() == messages // on a busy machine all may time out
				})
			} else {
				time.Sleep(time.Duration(round) * 100 * time.Microsecond) // any moment
			}
			link.Cut()
			link.Delay(0)
			need(t, failing.Wait())
			for i, err := range errs {
				var failed *counter.StoreError
				if err != nil && !errors.As(err, &failed) {
					t.Errorf("round %d, message %d: got %v, want an error of the store", round, i, err)
				}
				if err != nil {
					repeated++
					if direct.counted(i) == round {
						lost++
					}
					through.repeat(i, round)
				}
				if n := direct.counted(i); n != round {
					t.Fatalf("message %d: %d failures are counted, want %d", i, n, round)
				}
			}
		}
		if lost < messages {
			t.Errorf("%d COMMITs had no reply, want more", lost)
		}
		t.Logf("%d steps, %d repeated, of which %d had been made: each failure counts once", messages*rounds, repeated, lost)
	})
}

// failer counts failures of messages 0, 1, …, each with a token of its own.
type failer struct {
	t testing.TB
	*counter.Counter
}

func (s failer) fail(message, attempt int) (counter.Reply, error) {
	a := counter.Attempt{Message: counter.Message{VHost: "/", Queue: "q", ID: fmt.Sprint(message)},
		Token: fmt.Sprint(message, "-", attempt), Consumer: "c", Received: time.Now()}
	return s.Fail(s.t.Context(), a, counter.Failure{Limit: 1000, Reason: strings.Repeat("no space ", 100)})
}

// repeat sends a failure until the store replies.
func (s failer) repeat(message, attempt int) {
	s.t.Helper()
	proctest.Eventually(s.t, 2*time.Minute, "the reply", func() bool {
		_, err := s.fail(message, attempt)
		return err == nil
	})
}

// counted waits for a database that a busy machine keeps waiting.
func (s failer) counted(message int) int {
	s.t.Helper()
	var records []counter.Record
	proctest.Within(s.t, time.Minute, func() (err error) {
		records, err = s.Admin().Get(s.t.Context(), "/", "q", fmt.Sprint(message))
		return err
	})
	if len(records) == 0 {
		return 0
	}
	return records[0].Failures
}

// TestFullDisk fills the disk of a database while failures are counted, and prints the error of the store. When there
// is space again, the same Counter goes on, and each failure counts once. Only root may mount the small file system.
func TestFullDisk(t *testing.T) {
	servertest.Long(t)
	if os.Getuid() != 0 {
		t.Skip("mounting a file system needs root")
	}
	for _, name := range []string{"postgres", "mysql"} {
		t.Run(name, func(t *testing.T) {
			disk, err := os.MkdirTemp("", "strikes-disk-") // which the server's user reaches, unlike one of t.TempDir
			need(t, err)
			t.Cleanup(func() { need(t, os.Remove(disk)) })
			if out, err := exec.CommandContext(t.Context(), "mount", "-t", "tmpfs", "-o", "size=400m,mode=1777", "strikes",
				disk).CombinedOutput(); err != nil {
				t.Skipf("mounting a tmpfs: %v: %s", err, out)
			}
			t.Cleanup(func() {
				if out, err := exec.Command("umount", disk).CombinedOutput(); err != nil {
					t.Errorf("%v: %s", err, out)
				}
			})
			t.Setenv("TMPDIR", disk) // of the database
			kind := rig.Databases[name]
			server := servertest.Own(t, kind.Start, servers.DatabaseOptions{Args: map[string][]string{
				"mysql": {"--innodb-flush-log-at-trx-commit=1"}}[name]})
			rawURL, err := kind.Prepare(t.Context(), server.Addr)
			need(t, err)
			c := failer{t, counterOn(t, rawURL, "disk")}
			counted := map[int]bool{}
			for i := range 20 {
				c.repeat(i, 1)
				counted[i] = true
			}

			ballast := filepath.Join(disk, "ballast")
			fill(t, ballast)
			var mu sync.Mutex
			var failing panics.Group
			var said error
			failed, next := map[int]bool{}, 20
			for range 8 {
				failing.Go(func() error {
					for began := time.Now(); time.Since(began) < time.Minute; {
						mu.Lock()
						i := next
						next++
						enough := len(failed) > 50
						mu.Unlock()
						if enough {
							break
						}
						_, err := c.fail(i, 1)
						mu.Lock()
						if err == nil {
							counted[i] = true
						} else {
							failed[i] = true
							if said == nil || strings.Contains(err.Error(), "free space") {
								said = err
							}
						}
						mu.Unlock()
					}
					return nil
				})
			}
			need(t, failing.Wait())
			var full *counter.StoreError
			if !errors.As(said, &full) {
				t.Fatalf("%d steps on a full disk: %v", len(counted), said)
			}
			t.Logf("%d failures are counted, %d had an error: %v", len(counted), len(failed), said)

			need(t, os.Remove(ballast))
			if !server.Running() { // PostgreSQL ends if it cannot write its log
				need(t, server.Start(t.Context()))
			}
			for i := range failed {
				c.repeat(i, 1)
			}
			for i := range next {
				if n := c.counted(i); n != 1 && (counted[i] || failed[i]) {
					t.Errorf("message %d: %d failures are counted, want 1; it had a reply before: %v", i, n, counted[i])
				}
			}
		})
	}
}

// fill writes a file until the disk is full.
func fill(t *testing.T, name string) {
	t.Helper()
	f, err := os.Create(name)
	need(t, err)
	defer f.Close()
	for size := 1 << 20; size >= 1<<10; {
		if _, err := f.Write(make([]byte, size)); err != nil {
			size /= 2
		}
	}
}
