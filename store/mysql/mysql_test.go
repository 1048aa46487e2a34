package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/counter/rules"
	"github.com/strikesmq/strikes/counter/storetest"
	"github.com/strikesmq/strikes/internal/proctest"
	"github.com/strikesmq/strikes/internal/servers"
	"github.com/strikesmq/strikes/internal/servertest"
)

func TestMain(m *testing.M) { os.Exit(servertest.Run(m)) }

var need = servertest.Need

func errOf[T any](_ T, err error) error { return err }

var databases atomic.Int64

// database makes a database of its own, and returns its URL.
func database(t testing.TB) string { return databaseOn(t, servertest.MariaDB(t)) }

func databaseOn(t testing.TB, addr string) string {
	t.Helper()
	name := fmt.Sprintf("strikes_%d_%d", os.Getpid(), databases.Add(1))
	do(t, addr, "CREATE DATABASE "+name)
	return "mysql://root:@" + addr + "/" + name
}

// do runs statements as root.
func do(t testing.TB, addr string, statements ...string) {
	t.Helper()
	db, err := sql.Open("mysql", "root@tcp("+addr+")/")
	need(t, err)
	defer db.Close()
	for _, statement := range statements {
		if _, err := db.ExecContext(context.WithoutCancel(t.Context()), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}

// numbers is a table of the numbers from 1 to n: seq.
func numbers(n int) string {
	return fmt.Sprintf("JSON_TABLE(concat('[0', repeat(',0', %d), ']'), '$[*]' COLUMNS (seq FOR ORDINALITY)) numbers", n-1)
}

// migrated is the URL of a database with the schema.
func migrated(t testing.TB) string {
	t.Helper()
	url := database(t)
	for range 2 { // the second changes nothing
		need(t, Migrate(t.Context(), url))
	}
	return url
}

func open(t testing.TB, url string) *Store {
	t.Helper()
	s, err := Open(url, &Options{Timeout: 20e9})
	need(t, err)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// TestStore is the test of a Store, also on a server whose defaults are not those that the queries need.
func TestStore(t *testing.T) {
	t.Run("defaults", func(t *testing.T) {
		storetest.Run(t, func(t testing.TB) counter.Store { return open(t, migrated(t)) })
	})
	t.Run("other settings", func(t *testing.T) {
		server := servertest.Own(t, servers.StartMariaDB, servers.DatabaseOptions{Args: []string{"--autocommit=0",
			"--transaction-isolation=SERIALIZABLE", "--sql-mode=ANSI,NO_BACKSLASH_ESCAPES", "--default-time-zone=+05:30",
			"--character-set-server=latin1", "--log-bin=binlog", "--binlog-format=MIXED",
			"--innodb-rollback-on-timeout", "--lower-case-table-names=1", "--loose-innodb-snapshot-isolation",
			"--loose-sql-require-primary-key", "--loose-gtid-mode=ON", "--loose-enforce-gtid-consistency=ON"}})
		do(t, server.Addr, "SET GLOBAL sql_select_limit = 3", "SET GLOBAL sql_big_selects = 0",
			"SET GLOBAL max_join_size = 10", "SET GLOBAL sql_safe_updates = 1")
		storetest.Run(t, func(t testing.TB) counter.Store {
			url := databaseOn(t, server.Addr)
			need(t, Migrate(t.Context(), url))
			return open(t, url)
		})
	})
}

// TestKeys: names of the longest length are each other's neighbours, and longer ones are refused.
func TestKeys(t *testing.T) {
	s, of := open(t, migrated(t)), counter.Queue{Name: strings.Repeat("\xff", 255)}
	for _, name := range []string{strings.Repeat("x", 1022), strings.Repeat("x", 1021)} {
		saved, err := s.Save(t.Context(), of, counter.Change{Docs: []counter.Doc{{Name: "r:" + name, Data: "x"}}})
		if err != nil || !saved {
			t.Errorf("%d bytes: %v, %v", len(name), saved, err)
		}
	}
	for name, c := range map[string]counter.Change{
		"document": {Docs: []counter.Doc{{Name: strings.Repeat("x", 1025), Data: "x"}}},
		"member":   {Sets: []counter.Member{{Set: "s", Name: strings.Repeat("x", 1025)}}},
		"set":      {Sets: []counter.Member{{Set: strings.Repeat("x", 513), Name: "x"}}},
	} {
		_, err := s.Save(t.Context(), of, c)
		expect(t, name, err, counter.FaultOther, "too long")
	}
	err := errOf(s.Save(t.Context(), counter.Queue{Name: strings.Repeat("x", 1024)},
		counter.Change{Docs: []counter.Doc{{Name: "r:a", Data: "x"}}}))
	expect(t, "queue", err, counter.FaultOther, "too long")
}

// TestSmallPages: Migrate refuses a server whose pages are too small for the keys, and makes no table.
func TestSmallPages(t *testing.T) {
	for _, size := range []string{"4k", "8k"} {
		server := servertest.Own(t, servers.StartMariaDB, servers.DatabaseOptions{
			Args: []string{"--innodb-page-size=" + size}})
		url := databaseOn(t, server.Addr)
		expect(t, size, Migrate(t.Context(), url), counter.FaultNotSetUp, "innodb_page_size=16k")
		expect(t, size, saveOne(open(t, url), t.Context()), counter.FaultNotSetUp, "run: strikes store migrate")
	}
}

// TestCharacterSet: no text of a publisher ends a string of a statement, also where the server imposes a character set
// in which a backslash or a quote may be the second byte of a character.
func TestCharacterSet(t *testing.T) {
	server := servertest.Own(t, servers.StartMariaDB, servers.DatabaseOptions{Args: []string{
		"--loose-skip-character-set-client-handshake", "--character-set-server=gbk"}})
	url := databaseOn(t, server.Addr)
	need(t, Migrate(t.Context(), url))
	s, doc := open(t, url), counter.Doc{Name: "r:\xbf'", Data: "\xbf' OR 1 \xbf\\"}
	need(t, errOf(s.Save(t.Context(), someQueue, counter.Change{Docs: []counter.Doc{doc}})))
	if _, docs, err := s.Load(t.Context(), someQueue, doc.Name); err != nil || docs[0].Data != doc.Data {
		t.Errorf("got %+v, %v, want %q", docs, err, doc.Data)
	}
}

// TestLargeRecords: a batch of the largest records passes a server that takes short requests.
func TestLargeRecords(t *testing.T) {
	server := servertest.Own(t, servers.StartMariaDB, servers.DatabaseOptions{Args: []string{"--max-allowed-packet=1M"}})
	url := databaseOn(t, server.Addr)
	need(t, Migrate(t.Context(), url))
	s, large := open(t, url), rules.Record{State: rules.StateDeadLetter, Reason: strings.Repeat("'", 24<<10)}
	var messages []counter.Message
	for i := range 128 {
		m := counter.Message{VHost: someQueue.VHost, Queue: someQueue.Name, ID: fmt.Sprint(i)}
		messages = append(messages, m)
		d := counter.Doc{Name: counter.Entry{Name: counter.LetterName(m)}.Record(), Data: rules.Encode(large)}
		need(t, errOf(s.Save(t.Context(), someQueue, counter.Change{Docs: []counter.Doc{d}})))
	}
	admin := counter.Over(s, nil).Admin()
	need(t, admin.NoteRemoved(t.Context(), someQueue.VHost, someQueue.Name, messages))
	for _, m := range messages {
		records, err := admin.Get(t.Context(), m.VHost, m.Queue, m.ID)
		if err != nil || len(records) != 1 || records[0].Removed.IsZero() {
			t.Errorf("%s: %+v, %v; want one that was removed", m.ID, records, err)
		}
	}
}

// TestClean: documents and members that expired are deleted, and the others stay, with each set that is kept.
func TestClean(t *testing.T) {
	url := migrated(t)
	s := open(t, url)
	exec := func(sql string) {
		t.Helper()
		need(t, errOf(s.db.ExecContext(t.Context(), sql)))
	}
	exec("INSERT INTO strikes_doc SELECT concat('q', seq DIV 100), concat('d', seq), 'x', 1, " +
		"CASE seq % 3 WHEN 0 THEN 0 WHEN 1 THEN 5 ELSE 9000000000000 END FROM " + numbers(3000))
	for _, set := range []string{"s", "kept"} {
		exec("INSERT INTO strikes_member SELECT queue, '" + set + "', name, 1, expires FROM strikes_doc")
	}
	exec("INSERT INTO strikes_member SELECT DISTINCT queue, '', 'kept', 0, 9000000000000 FROM strikes_doc")
	exec("INSERT INTO strikes_member VALUES ('q1', '', 's', 0, 5)")
	for _, table := range []struct {
		sweep
		deleted, left int
	}{{docs, 1000, 0}, {members, 1001, 1000}} {
		total := 0
		for range 8 {
			n, err := s.cleanSome(t.Context(), &table.sweep)
			need(t, err)
			total += n
		}
		var left int
		err := s.db.QueryRowContext(t.Context(), "SELECT count(*) FROM "+table.table+" WHERE expires = 5").Scan(&left)
		if total != table.deleted || left != table.left || err != nil {
			t.Errorf("%s: %d were deleted, %d that expired are left, %v", table.table, total, left, err)
		}
	}
}

// awaitLockWait waits until a transaction waits for a lock.
func (s *Store) awaitLockWait(t *testing.T) {
	t.Helper()
	proctest.Eventually(t, time.Minute, "a transaction that waits", func() bool {
		time.Sleep(150 * time.Millisecond) // the server reads the table anew if it was not read for 100 ms
		waits := 0
		err := s.db.QueryRowContext(t.Context(), "SELECT count(*) FROM information_schema.innodb_trx "+
			"WHERE trx_state = 'LOCK WAIT'").Scan(&waits)
		return err == nil && waits > 0
	})
}

// TestLocks: a Save that loses a deadlock begins again, and one that waits for longer than it may is an error.
func TestLocks(t *testing.T) {
	s := open(t, migrated(t))
	doc := func(name, data string) counter.Doc { return counter.Doc{Name: name, Data: data, Any: true} }
	for range 10 {
		need(t, errOf(s.Save(t.Context(), someQueue, counter.Change{Docs: []counter.Doc{doc("r:1", "x"),
			doc("r:2", "x")}})))
		other, err := s.db.BeginTx(t.Context(), nil)
		need(t, err)
		lock := func(name string) error {
			_, err := other.ExecContext(t.Context(), "UPDATE strikes_doc SET data = 'y' WHERE name = ?", []byte(name))
			return err
		}
		need(t, lock("r:2"))
		// The other has changed much, so the server ends the Save.
		need(t, errOf(other.ExecContext(t.Context(), "INSERT INTO strikes_doc SELECT 'q', seq, 'x', 1, 1 FROM "+
			numbers(1000)+" ON DUPLICATE KEY UPDATE version = strikes_doc.version + 1")))
		saving := make(chan error, 1)
		go func() {
			saved, err := s.Save(t.Context(), someQueue, counter.Change{Docs: []counter.Doc{doc("r:1", "z"), doc("r:2", "z")}})
			if err == nil && !saved {
				err = errors.New("not saved")
			}
			saving <- err
		}()
		s.awaitLockWait(t)
		if err := errors.Join(lock("r:1"), other.Commit(), <-saving); err != nil {
			t.Error(err)
		}
		if _, docs, err := s.Load(t.Context(), someQueue, "r:1", "r:2"); err != nil || docs[0].Data+docs[1].Data != "zz" {
			t.Errorf("%+v, %v", docs, err)
		}
	}
	held, err := s.db.BeginTx(t.Context(), nil)
	need(t, err)
	defer held.Rollback()
	need(t, errOf(held.ExecContext(t.Context(), "SELECT * FROM strikes_doc FOR UPDATE")))
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	_, err = s.Save(ctx, someQueue, counter.Change{Docs: []counter.Doc{doc("r:1", "x")}})
	expect(t, "late", err, counter.FaultSlow, "deadline")
}
