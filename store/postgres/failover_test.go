package postgres

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/strikesmq/strikes/counter"
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
