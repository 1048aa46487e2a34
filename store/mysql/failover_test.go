package mysql

import (
	"context"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/proctest"
	"github.com/strikesmq/strikes/internal/servers"
	"github.com/strikesmq/strikes/internal/servertest"
)

// TestFailover kills a primary and promotes its replica, which was away at the last failure. A failure that a
// semi-synchronous replica has not received is not confirmed, so the consumer repeats it: it is counted once. One that
// an asynchronous replica has not received was confirmed, and is lost: the message gets that attempt again.
func TestFailover(t *testing.T) {
	servertest.Long(t)
	if os.Getenv("STRIKES_MYSQLD") != "" {
		t.Skip("the statements of replication are MariaDB's")
	}
	for name, synchronous := range map[string]bool{"semi-synchronous": true, "asynchronous": false} {
		t.Run(name, func(t *testing.T) {
			both := []string{"--log-bin=binlog", "--log-slave-updates", "--innodb-flush-log-at-trx-commit=2"}
			primary := servertest.Own(t, servers.StartMariaDB, servers.DatabaseOptions{Args: append(both, "--server-id=1")})
			replica := servertest.Own(t, servers.StartMariaDB, servers.DatabaseOptions{Args: append(both, "--server-id=2",
				"--rpl-semi-sync-slave-enabled=ON")})
			follow(t, replica.Addr, primary.Addr)
			if synchronous {
				do(t, primary.Addr, "SET GLOBAL rpl_semi_sync_master_enabled = ON",
					"SET GLOBAL rpl_semi_sync_master_wait_point = AFTER_SYNC", "SET GLOBAL rpl_semi_sync_master_timeout = 3600000")
			}
			url := databaseOn(t, primary.Addr)
			need(t, Migrate(t.Context(), url))
			fail := func(s *Store, within time.Duration, token string) (counter.Reply, error) {
				ctx, cancel := context.WithTimeout(t.Context(), within)
				defer cancel()
				m := counter.Message{VHost: "/", Queue: "orders", ID: "1"}
				return counter.Over(s, nil).Fail(ctx, counter.Attempt{Message: m, Token: token}, counter.Failure{Limit: 9})
			}
			before := open(t, url)
			if reply, err := fail(before, 10*time.Second, "a"); err != nil || reply.Failures != 1 {
				t.Fatalf("%+v, %v", reply, err)
			}
			after := open(t, strings.ReplaceAll(url, primary.Addr, replica.Addr))
			proctest.Eventually(t, 20*time.Second, "the replica has the failure", func() bool {
				n := 0
				err := after.db.QueryRowContext(t.Context(), "SELECT count(*) FROM strikes_doc WHERE name LIKE 'r:%'").Scan(&n)
				return err == nil && n > 0
			})
			need(t, replica.Stop(t.Context()))
			if _, err := fail(before, 2*time.Second, "b"); (err != nil) != synchronous {
				t.Errorf("without its replica: %v", err)
			}
			need(t, primary.Kill())
			need(t, replica.Start(t.Context()))
			do(t, replica.Addr, "STOP SLAVE", "RESET SLAVE ALL")
			want := 2 // the failure a, and c: b is lost
			if synchronous {
				if _, err := fail(after, 10*time.Second, "b"); err != nil {
					t.Error(err)
				}
				want = 3
			}
			if reply, err := fail(after, 10*time.Second, "c"); err != nil || reply.Failures != want {
				t.Errorf("%d failures are counted, want %d, %v", reply.Failures, want, err)
			}
		})
	}
}

// follow has a server replicate another. A private MariaDB lacks the table in which it remembers how far it came.
func follow(t *testing.T, replica, primary string) {
	t.Helper()
	_, port, err := net.SplitHostPort(primary)
	need(t, err)
	for _, addr := range []string{primary, replica} {
		do(t, addr, "CREATE DATABASE IF NOT EXISTS mysql", `CREATE TABLE IF NOT EXISTS mysql.gtid_slave_pos (
			domain_id INT UNSIGNED, sub_id BIGINT UNSIGNED, server_id INT UNSIGNED NOT NULL, seq_no BIGINT UNSIGNED NOT NULL,
			PRIMARY KEY (domain_id, sub_id)) ENGINE = InnoDB`)
	}
	do(t, replica, "CHANGE MASTER TO master_host = '127.0.0.1', master_port = "+port+", master_user = 'root', "+
		"master_use_gtid = slave_pos, master_connect_retry = 1", "START SLAVE")
}
