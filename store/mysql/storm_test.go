package mysql

import (
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/servers"
	"github.com/strikesmq/strikes/internal/servertest"
)

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
