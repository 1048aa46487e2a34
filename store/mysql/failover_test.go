package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

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

// storm counts failures of messages with two Stores, and repeats each step until it has a reply, as consumers do. It
// fails the test unless each failure counts once. It calls done with the number of steps that have a reply so far.
func storm(t *testing.T, url string, steps int, done func(int64)) {
	t.Helper()
	const messages = 5
	var pair []*counter.Counter
	for range 2 {
		pair = append(pair, counter.Over(open(t, url), nil))
	}
	var failing errgroup.Group
	failing.SetLimit(16)
	var replied, repeated atomic.Int64
	for i := range steps {
		failing.Go(func() error {
			a := counter.Attempt{Message: counter.Message{VHost: "/", Queue: "orders", ID: fmt.Sprint(i % messages)},
				Token: fmt.Sprint("t", i), Consumer: "c", Received: time.Now()}
			for began := time.Now(); ; repeated.Add(1) {
				_, err := pair[i%2].Fail(t.Context(), a, counter.Failure{Limit: steps, Reason: "boom"})
				if err == nil {
					done(replied.Add(1))
					return nil
				}
				if time.Since(began) > time.Minute {
					return err
				}
				time.Sleep(10 * time.Millisecond)
			}
		})
	}
	need(t, failing.Wait())
	counted := 0
	for i := range messages {
		records, err := pair[0].Admin().Get(t.Context(), "/", "orders", fmt.Sprint(i))
		if err != nil || len(records) != 1 {
			t.Fatalf("%d: %+v, %v", i, records, err)
		}
		counted += records[0].Failures
	}
	if counted != steps {
		t.Errorf("%d failures are counted, want %d", counted, steps)
	}
	if repeated.Load() == 0 {
		t.Error("no step was repeated")
	}
	t.Logf("%d steps, %d times repeated", steps, repeated.Load())
}

// TestKilledConnections: each failure counts once, although connections are killed all the time.
func TestKilledConnections(t *testing.T) {
	url := migrated(t)
	name := url[strings.LastIndex(url, "/")+1:]
	db, err := sql.Open("mysql", "root@tcp("+servertest.MariaDB(t)+")/")
	need(t, err)
	defer db.Close()
	storm(t, url, 1000, func(n int64) {
		var id int64
		if err := db.QueryRowContext(t.Context(), "SELECT id FROM information_schema.processlist WHERE db = ? AND "+
			"command <> 'Sleep' ORDER BY rand() LIMIT 1", name).Scan(&id); n%5 == 0 && err == nil {
			_, _ = db.ExecContext(t.Context(), fmt.Sprint("KILL ", id)) // it may be gone
		}
	})
}

// TestRestarts: each failure counts once, although the server is ended by SIGKILL and starts again.
func TestRestarts(t *testing.T) {
	server := servertest.Own(t, servers.StartMariaDB, servers.DatabaseOptions{
		Args: []string{"--innodb-flush-log-at-trx-commit=2"}}) // a crash of the process loses nothing
	url := databaseOn(t, server.Addr)
	need(t, Migrate(t.Context(), url))
	need(t, errors.Join(server.Stop(t.Context()), server.Start(t.Context())))
	storm(t, url, 600, func(n int64) {
		if n%200 == 100 {
			if err := server.Kill(); err != nil {
				t.Error(err)
			}
			if err := server.Start(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
}

// TestFrozenClient: the locks of a process that froze in a Save are free after idleTimeout.
func TestFrozenClient(t *testing.T) {
	servertest.Long(t)
	url := migrated(t)
	frozen := open(t, url)
	conn, err := frozen.db.Conn(t.Context())
	need(t, err)
	defer conn.Close()
	change := counter.Change{Docs: []counter.Doc{{Name: "r:a", Data: "x", Any: true}}}
	key := frozen.base.Key(someQueue)
	need(t, saveOne(frozen, t.Context()))
	need(t, frozen.lock(t.Context(), conn, planOf(key, change)))
	began := time.Now()
	if err := saveOne(open(t, url), t.Context()); err != nil || time.Since(began) > idleTimeout+5*time.Second ||
		time.Since(began) < time.Second {
		t.Errorf("after %v: %v", time.Since(began), err)
	}
}
