package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/counter/storetest"
	"github.com/strikesmq/strikes/internal/proctest"
	"github.com/strikesmq/strikes/internal/servers"
	"github.com/strikesmq/strikes/internal/servertest"
)

// TestFailover kills a primary and promotes its standby, which was away at the last failure. A failure that a
// synchronous standby has not received is not confirmed, so the consumer repeats it: it is counted once. One that an
// asynchronous standby has not received was confirmed, and is lost: the message gets that attempt again.
func TestFailover(t *testing.T) {
	servertest.Long(t)
	for name, synchronous := range map[string]bool{"synchronous": true, "asynchronous": false} {
		t.Run(name, func(t *testing.T) {
			primary := servertest.Own(t, servers.StartPostgreSQL, servers.DatabaseOptions{})
			standby := servertest.Own(t, servers.StartStandby, primary)
			at := "postgres://postgres@%s/postgres?sslmode=disable&connect_timeout=1"
			admin := fmt.Sprintf(at, primary.Addr)
			need(t, Migrate(t.Context(), admin))
			if synchronous {
				do(t, admin, "ALTER SYSTEM SET synchronous_standby_names = '*'", "SELECT pg_reload_conf()")
				until(t, admin, "SELECT count(*) > 0 FROM pg_stat_replication WHERE sync_state = 'sync'")
			}
			s, err := Open(fmt.Sprintf(at, primary.Addr+","+standby.Addr)+"&target_session_attrs=read-write", nil)
			need(t, err)
			defer s.Close()
			c := counter.Over(s, nil)
			fail := func(within time.Duration, token string) (counter.Reply, error) {
				ctx, cancel := context.WithTimeout(t.Context(), within)
				defer cancel()
				m := counter.Message{VHost: "/", Queue: "orders", ID: "1"}
				return c.Fail(ctx, counter.Attempt{Message: m, Token: token}, counter.Failure{Limit: 9})
			}
			if reply, err := fail(10*time.Second, "a"); err != nil || reply.Failures != 1 {
				t.Fatalf("%+v, %v", reply, err)
			}
			// An asynchronous standby lags behind.
			until(t, fmt.Sprintf(at, standby.Addr), "SELECT to_regclass('strikes_doc') IS NOT NULL")
			until(t, fmt.Sprintf(at, standby.Addr), "SELECT count(*) > 0 FROM strikes_doc WHERE name LIKE 'r:%'")
			need(t, standby.Kill())
			if _, err = fail(2*time.Second, "b"); (err != nil) != synchronous {
				t.Errorf("without its standby: %v", err)
			}
			need(t, primary.Kill())
			need(t, standby.Start(t.Context()))
			do(t, fmt.Sprintf(at, standby.Addr), "SELECT pg_promote()")
			want := 2 // the failure a, and c: b is lost
			if synchronous {
				if _, err = again(t, func() (counter.Reply, error) { return fail(5*time.Second, "b") }); err != nil {
					t.Error(err)
				}
				want = 3
			}
			reply, err := again(t, func() (counter.Reply, error) { return fail(5*time.Second, "c") })
			if err != nil || reply.Failures != want {
				t.Errorf("%d failures are counted, want %d, %v", reply.Failures, want, err)
			}
		})
	}
}

// again takes a step as a consumer does: until it is confirmed.
func again(t *testing.T, step func() (counter.Reply, error)) (reply counter.Reply, err error) {
	t.Helper()
	for began := time.Now(); time.Since(began) < time.Minute; {
		if reply, err = step(); err == nil {
			break
		}
	}
	return reply, err
}

// until asks a server until it says yes.
func until(t *testing.T, url, sql string) {
	t.Helper()
	do(t, url, `DO $$ BEGIN FOR i IN 1..600 LOOP IF (`+strings.TrimSpace(sql)+`) THEN RETURN; END IF;
		PERFORM pg_sleep(0.1), pg_stat_clear_snapshot(); END LOOP; RAISE EXCEPTION 'it stays so'; END $$`)
}

// TestPgbouncer is the test of a Store behind a pgbouncer that gives each transaction any of two connections. With
// named prepared statements the Store fails there, and the error names the parameter.
func TestPgbouncer(t *testing.T) {
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		t.Skip("pgbouncer is not installed; make setup installs it with apt")
	}
	dir, err := os.MkdirTemp("/tmp", "strikes-pgbouncer-") // pgbouncer, as another user, cannot reach t.TempDir()
	need(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	free, err := net.Listen("tcp", "127.0.0.1:0")
	need(t, err)
	addr := free.Addr().String()
	host, port, _ := net.SplitHostPort(servertest.PostgreSQL(t))
	_, listen, _ := net.SplitHostPort(addr)
	config := fmt.Sprintf("[databases]\n* = host=%s port=%s user=postgres\n[pgbouncer]\nlisten_addr=127.0.0.1\n"+
		"listen_port=%s\nauth_type=any\npool_mode=transaction\ndefault_pool_size=2\nunix_socket_dir=\n", host, port, listen)
	file := filepath.Join(dir, "ini")
	if err := os.WriteFile(file, []byte(config), 0o644); err != nil { // pgbouncer runs as another user
		t.Fatal(err)
	}
	args := []string{"-q", file}
	if os.Getuid() == 0 {
		args = append([]string{"-u", "nobody"}, args...)
	}
	need(t, os.Chmod(dir, 0o755))
	bouncer := exec.Command(program, args...)
	bouncer.Stderr = os.Stderr
	need(t, free.Close())
	need(t, bouncer.Start())
	t.Cleanup(func() {
		_ = bouncer.Process.Signal(syscall.SIGTERM)
		_ = bouncer.Wait() // it was terminated
	})
	proctest.Eventually(t, 20e9, "pgbouncer", func() bool {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
	through := func(t testing.TB) string {
		return strings.Replace(migrated(t), net.JoinHostPort(host, port), addr, 1)
	}
	storetest.Run(t, func(t testing.TB) counter.Store { return open(t, through(t)) })
	named := through(t) + "&default_query_exec_mode=cache_statement"
	one, other := open(t, named), open(t, named)
	for i := 0; err == nil && i < 1000; i++ {
		for _, s := range []*Store{one, other} {
			_, _, failed := s.Load(t.Context(), counter.Queue{Name: "q"}, "r:a")
			err = errors.Join(err, failed)
		}
	}
	if err == nil || !strings.Contains(err.Error(), "default_query_exec_mode=cache_describe") {
		t.Errorf("with named statements: %v", err)
	}
}
