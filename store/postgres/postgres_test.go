package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgproto3"
	"golang.org/x/sync/errgroup"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/counter/storetest"
	"github.com/strikesmq/strikes/internal/proctest"
	"github.com/strikesmq/strikes/internal/servertest"
	"github.com/strikesmq/strikes/internal/sqlstore"
)

func TestMain(m *testing.M) { os.Exit(servertest.Run(m)) }

var need = servertest.Need

func errOf[T any](_ T, err error) error { return err }

var databases atomic.Int64

// database makes a database of its own, and returns its URL.
func database(t testing.TB) string {
	t.Helper()
	base := "postgres://postgres:secret@" + servertest.PostgreSQL(t) + "/"
	name := fmt.Sprintf("strikes_%d_%d", os.Getpid(), databases.Add(1))
	do(t, base+"postgres", "CREATE DATABASE "+name)
	return base + name + "?sslmode=disable"
}

func do(t testing.TB, url string, statements ...string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	need(t, err)
	defer conn.Close(context.Background())
	for _, sql := range statements {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
}

// TestMigrations: a process that connects while others migrate finds the tables, or is told to migrate.
func TestMigrations(t *testing.T) {
	for range 20 {
		url := database(t)
		var processes errgroup.Group
		for range 4 {
			s := open(t, url)
			processes.Go(func() error { return Migrate(t.Context(), url) })
			processes.Go(func() error {
				_, err := s.Save(t.Context(), counter.Queue{Name: "q"},
					counter.Change{Docs: []counter.Doc{{Name: "r:a", Data: "x", Any: true}}})
				if err != nil && !strings.Contains(err.Error(), "run: strikes store migrate") {
					return err
				}
				return nil
			})
		}
		need(t, processes.Wait())
	}
}

// TestMissingTable: the command that an error names makes a table that is missing.
func TestMissingTable(t *testing.T) {
	for _, table := range []string{"strikes_doc", "strikes_member"} {
		url := migrated(t)
		do(t, url, "DROP TABLE "+table)
		save := func() error {
			return errOf(open(t, url).Save(t.Context(), counter.Queue{Name: "q"}, counter.Change{
				Docs: []counter.Doc{{Name: "r:a", Data: "x"}}, Sets: []counter.Member{{Set: "index", Name: "a"}}}))
		}
		if err := save(); !errors.Is(err, sqlstore.ErrSchema) ||
			!strings.Contains(err.Error(), "run: strikes store migrate") {
			t.Errorf("without %s: %v", table, err)
		}
		need(t, Migrate(t.Context(), url))
		need(t, save())
	}
}

// TestMigrateBesideANewer: a process that waits while a newer strikes migrates refuses the newer tables, also where
// transactions are REPEATABLE READ by default.
func TestMigrateBesideANewer(t *testing.T) {
	url := database(t)
	newer, err := pgx.Connect(t.Context(), url)
	need(t, err)
	defer newer.Close(context.Background())
	tx, err := newer.Begin(t.Context())
	need(t, err)
	need(t, errOf(tx.Exec(t.Context(), fmt.Sprintf("SELECT pg_advisory_xact_lock(%d)", migrating))))
	older := make(chan error)
	go func() { older <- Migrate(t.Context(), url+"&default_transaction_isolation=repeatable%20read") }()
	proctest.Eventually(t, 20e9, "the older waits", func() (waits bool) {
		err := newer.QueryRow(t.Context(), "SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted)").Scan(&waits)
		return err == nil && waits
	})
	need(t, errOf(tx.Exec(t.Context(), Schema+"COMMENT ON TABLE strikes_doc IS 'strikes 2'")))
	need(t, tx.Commit(t.Context()))
	refused := <-older
	version, err := versionOf(t.Context(), newer)
	if err != nil || version != "strikes 2" || !errors.Is(refused, sqlstore.ErrSchema) {
		t.Errorf("the version is %q, %v; the older says %v", version, err, refused)
	}
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

// TestStore is the test of a Store, also where transactions are not READ COMMITTED.
func TestStore(t *testing.T) {
	for _, mode := range []string{"", "&default_transaction_isolation=serializable",
		"&default_query_exec_mode=simple_protocol&bytea_output=escape",
		"&default_query_exec_mode=cache_statement&default_transaction_isolation=repeatable%20read"} {
		t.Run("mode"+mode, func(t *testing.T) {
			storetest.Run(t, func(t testing.TB) counter.Store { return open(t, migrated(t)+mode) })
		})
	}
}

// TestAnotherPrimary: a connection to a server that has become read-only is given up, because its address may lead to
// another primary by now.
func TestAnotherPrimary(t *testing.T) {
	url := migrated(t)
	name := regexp.MustCompile(`/(strikes_\w+)`).FindStringSubmatch(url)[1]
	do(t, url, "ALTER DATABASE "+name+" SET default_transaction_read_only = on") // for new connections
	s := open(t, url)
	save := func() error {
		_, err := s.Save(t.Context(), counter.Queue{VHost: "/", Name: "q"},
			counter.Change{Docs: []counter.Doc{{Name: "r:a", Data: "x"}}})
		return err
	}
	if err := save(); err == nil {
		t.Fatal("it is not read-only")
	}
	do(t, url, "SET default_transaction_read_only = off", "ALTER DATABASE "+name+" RESET default_transaction_read_only")
	var err error
	for range 5 { // the goroutine that deletes rows may have another such connection
		if err = save(); err == nil {
			return
		}
	}
	t.Error(err)
}

// TestOrderOfLocks: a Save that deletes a record locks it before its members, as a Save that counts a failure does. In
// another order the two would wait for each other for a second.
func TestOrderOfLocks(t *testing.T) {
	url, of := migrated(t), counter.Queue{Name: "q"}
	s := open(t, url)
	need(t, errOf(s.Save(t.Context(), of, counter.Change{Docs: []counter.Doc{{Name: "r:a", Data: "x"}},
		Sets: []counter.Member{{Set: "index", Name: "a"}}})))
	failing, err := pgx.Connect(t.Context(), url)
	need(t, err)
	defer failing.Close(context.Background())
	need(t, errOf(failing.Exec(t.Context(), "BEGIN; SELECT FROM strikes_doc FOR UPDATE")))
	forgotten := make(chan error)
	go func() {
		forgotten <- errOf(s.Save(t.Context(), of, counter.Change{Docs: []counter.Doc{{Name: "r:a", Any: true}},
			Sets: []counter.Member{{Set: "index", Name: "a", Gone: true}}}))
	}()
	proctest.Eventually(t, 20e9, "the other waits", func() (waits bool) {
		err := s.pool.QueryRow(t.Context(), "SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted)").Scan(&waits)
		return err == nil && waits
	})
	_, err = failing.Exec(t.Context(), "SET LOCAL lock_timeout = '100ms'; UPDATE strikes_member SET score = 1; COMMIT")
	if err = errors.Join(err, <-forgotten); err != nil {
		t.Error(err)
	}
}

// TestComparedRecord: a record that a change compares is as it was loaded when the change is saved, also if another
// Save writes the record while the first one waits for a lock.
func TestComparedRecord(t *testing.T) {
	url, of := migrated(t), counter.Queue{Name: "q"}
	s := open(t, url)
	need(t, errOf(s.Save(t.Context(), of, counter.Change{Docs: []counter.Doc{{Name: "pause", Data: "x"},
		{Name: "r:a", Data: "held"}}})))
	_, docs, err := s.Load(t.Context(), of, "pause", "r:a")
	need(t, err)
	other, err := pgx.Connect(t.Context(), url)
	need(t, err)
	defer other.Close(context.Background())
	need(t, errOf(other.Exec(t.Context(), "BEGIN; SELECT FROM strikes_doc WHERE name = 'pause' FOR UPDATE")))
	saved := make(chan bool, 1)
	go func() {
		is, err := s.Save(t.Context(), of, counter.Change{Docs: docs[:1], Same: docs[1:]})
		saved <- err != nil || is
	}()
	proctest.Eventually(t, 20e9, "it waits", func() (waits bool) {
		err := s.pool.QueryRow(t.Context(), "SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted)").Scan(&waits)
		return err == nil && waits
	})
	need(t, errOf(s.Save(t.Context(), of, counter.Change{Docs: []counter.Doc{{Name: "r:a", Data: "skip", Any: true}}})))
	need(t, errOf(other.Exec(t.Context(), "COMMIT")))
	if <-saved {
		t.Error("it was saved beside a record that had changed")
	}
}

// TestErrors: each names the fault and the remedy, and none has the password.
func TestErrors(t *testing.T) {
	url := migrated(t)
	newer, older, missing, locked, late := migrated(t), migrated(t), database(t), migrated(t), migrated(t)
	conn, err := pgx.Connect(t.Context(), locked)
	need(t, err)
	defer conn.Close(context.Background())
	need(t, errOf(conn.Exec(t.Context(), "BEGIN; LOCK TABLE strikes_doc IN EXCLUSIVE MODE")))
	do(t, newer, "COMMENT ON TABLE strikes_doc IS 'strikes 2'")
	do(t, older, "COMMENT ON TABLE strikes_doc IS 'strikes 0'")
	do(t, late, `CREATE FUNCTION late() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		RAISE 'terminating connection due to transaction timeout' USING ERRCODE = '25P04'; END $$`,
		"CREATE TRIGGER late BEFORE INSERT ON strikes_doc EXECUTE FUNCTION late()") // as PostgreSQL 17 does
	user := fmt.Sprintf("app-%d-%d", os.Getpid(), databases.Add(1)) // the server keeps it after the test
	do(t, url, fmt.Sprintf("CREATE ROLE %q LOGIN; GRANT SELECT ON strikes_doc, strikes_member TO %[1]q", user))
	reader := strings.Replace(url, "postgres:secret", user+":secret", 1)
	for name, tc := range map[string]struct {
		url   string
		fault counter.StoreFault
		says  string
	}{
		"missing schema": {missing, counter.FaultNotSetUp, "run: strikes store migrate"},
		"newer schema":   {newer, counter.FaultNotSetUp, "upgrade this program"},
		"older schema":   {older, counter.FaultNotSetUp, "run: strikes store migrate"},
		"read-only":      {url + "&default_transaction_read_only=on", counter.FaultReadOnly, "address of the primary"},
		"no such user": {strings.Replace(url, "postgres:secret", "absent:secret", 1), counter.FaultDenied,
			"check the user"},
		"no such database": {strings.Replace(url, "/strikes_", "/absent_", 1), counter.FaultNotSetUp,
			"create the database absent_"},
		"no permission": {reader, counter.FaultDenied, "GRANT SELECT, INSERT, UPDATE, DELETE"},
		"no server":     {"postgres://postgres:secret@127.0.0.1:1/x?sslmode=disable", counter.FaultUnreachable, "refused"},
		"late":          {locked + "&statement_timeout=1", counter.FaultSlow, "statement timeout"},
		"late in all":   {late, counter.FaultSlow, "transaction timeout"},
	} {
		s := open(t, tc.url)
		doc := counter.Change{Docs: []counter.Doc{{Name: "r:a", Data: "x"}}}
		_, err := s.Save(t.Context(), counter.Queue{VHost: "/", Name: "q"}, doc)
		var failed *counter.StoreError
		if !errors.As(err, &failed) || failed.Fault != tc.fault || !strings.Contains(err.Error(), tc.says) ||
			strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: got %v, want %q and %q", name, err, tc.fault, tc.says)
		}
	}
	if err := Migrate(t.Context(), newer); !errors.Is(err, sqlstore.ErrSchema) {
		t.Errorf("got %v, want %v", err, sqlstore.ErrSchema)
	}
	found, err := open(t, reader+"&synchronous_commit=off").Examine(t.Context())
	if err != nil || len(found) != 2 || found[0].Code != "store-acl" || found[1].Code != "store-volatile" {
		t.Errorf("%+v, %v", found, err)
	}
	_, grant, _ := strings.Cut(found[0].Fix, ": ")
	do(t, url, grant, found[1].Fix)
	if found, err = open(t, reader).Examine(t.Context()); err != nil || len(found) > 0 {
		t.Errorf("%+v, %v", found, err)
	}
	for _, wrong := range []string{"redis://x", "postgres://u:secret@h:port/x", "postgres://u:a@secret:b@h/x"} {
		if _, err := Open(wrong, nil); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", wrong, err)
		}
	}
}

// TestClean: expired rows are deleted, and no others, with named statements and without. A set that is kept stays.
func TestClean(t *testing.T) {
	for _, mode := range []string{"", "&default_query_exec_mode=simple_protocol&bytea_output=escape"} {
		url := migrated(t)
		s := open(t, url+mode)
		do(t, url, `INSERT INTO strikes_doc (queue, name, data, version, expires)
			SELECT 'q', convert_to('d' || i, 'UTF8'), 'x', 1, CASE i % 3 WHEN 0 THEN 0 WHEN 1 THEN 5 ELSE 9000000000000 END
			FROM generate_series(1, 3000) i`, `INSERT INTO strikes_member (queue, "set", name, score, expires)
			SELECT 'q', s, name, 1, expires FROM strikes_doc, unnest('{s,kept}'::bytea[]) s`,
			"INSERT INTO strikes_member VALUES ('q', '', 's', 0, 5), ('q', '', 'kept', 0, 9000000000000)")
		for sql, want := range map[string]int{cleanDocs: 1000, cleanMembers: 1001} {
			sweep, total := s.sweep(sql), 0
			for range 7 {
				n, err := sweep(t.Context())
				need(t, err)
				total += n
			}
			if total != want {
				t.Errorf("mode %q: %d were deleted, want %d", mode, total, want)
			}
		}
	}
}

// TestWithoutStatistics: a call reads only the documents and members that it names, not their whole queue. The tables
// are new, so PostgreSQL has no statistics for them yet. An early Save planned its statement when they were empty.
func TestWithoutStatistics(t *testing.T) {
	url := migrated(t)
	const all = 100_000
	key := fmt.Sprintf("'%s'", open(t, url).base.Key(counter.Queue{VHost: "/", Name: "q"}))
	do(t, url, "ALTER TABLE strikes_doc SET (autovacuum_enabled = off)",
		"ALTER TABLE strikes_member SET (autovacuum_enabled = off)")
	var names []string
	var entries []counter.Entry
	change := counter.Change{Add: []counter.Sum{{Doc: "sum", Field: "n", By: 1}}}
	for i := range 128 {
		names = append(names, fmt.Sprint("r:", i*100))
		entries = append(entries, counter.Entry{Name: fmt.Sprint(i * 100), Score: 1})
		change.Docs = append(change.Docs, counter.Doc{Name: names[i], Data: "y", Any: true})
	}
	change.Sets = []counter.Member{{Set: "dead", Name: "r:1"}, {Set: "index", Name: "r:1", Gone: true}}
	of := counter.Queue{VHost: "/", Name: "q"}
	early, err := Open(url, nil)
	if err == nil {
		_, err = early.Save(t.Context(), of, change)
	}
	need(t, err)
	do(t, url, fmt.Sprintf(`INSERT INTO strikes_doc SELECT %s, convert_to('r:' || i, 'UTF8'), 'x', 1, 0
		FROM generate_series(1, %d) i ON CONFLICT DO NOTHING`, key, all), fmt.Sprintf(`INSERT INTO strikes_member
		SELECT %s, 'index', convert_to('r:' || i, 'UTF8'), 1, 0 FROM generate_series(1, %d) i`, key, all))
	number := func(sql string) (n int) {
		conn, err := pgx.Connect(t.Context(), url)
		if err == nil {
			defer conn.Close(context.Background())
			err = conn.QueryRow(t.Context(), sql).Scan(&n)
		}
		need(t, err)
		return n
	}
	read := func() int { return number(`SELECT sum(idx_tup_fetch + seq_tup_read) FROM pg_stat_user_tables`) }
	scans := func() int {
		return number(`SELECT idx_scan FROM pg_stat_user_indexes WHERE indexrelname = 'strikes_member_page'`)
	}
	open := func(mode string) *Store {
		s, err := Open(url+mode, nil)
		need(t, err)
		return s
	}
	save := func(s *Store) error { _, err := s.Save(t.Context(), of, change); return err }
	page := func(s *Store, after counter.Entry) error {
		_, err := s.Page(t.Context(), of, "index", after, len(names))
		return err
	}
	const unnamed = "&default_query_exec_mode=cache_describe"
	before := read()
	for _, c := range []struct {
		name string
		on   *Store
		call func(s *Store) error
	}{
		{"a Save that was planned before", early, save},
		{"Save", open(""), save},
		{"Load", open(""), func(s *Store) error { _, _, err := s.Load(t.Context(), of, names...); return err }},
		{"Read", open(""), func(s *Store) error { _, err := s.Read(t.Context(), of, "index", entries); return err }},
		{"Page", open(""), func(s *Store) error { return page(s, counter.Entry{}) }},
		{"a Page behind a pgbouncer", open(unnamed), func(s *Store) error { return page(s, counter.Entry{}) }},
		{"the next one", open(unnamed), func(s *Store) error { return page(s, counter.Entry{Name: "r:9", Score: 1}) }},
	} {
		// The server counts the reads of a session when it ends.
		need(t, errors.Join(c.call(c.on), c.on.Close()))
		after := 0
		proctest.Eventually(t, time.Minute, "the statistics of "+c.name, func() bool {
			after = read()
			return after >= before+len(names)-1
		})
		if after-before > all/2 {
			t.Errorf("%s of %d documents reads %d rows", c.name, len(names), after-before)
		}
		if pages := scans(); pages > 0 && strings.Contains(c.name, "Save") {
			t.Errorf("%s looks for members in the index of pages %d times", c.name, pages)
		}
		before = after
	}
}

// TestNamedStatements: a connection to a process of the server names the statements of a Save, so that the server keeps
// their plans. TestPgbouncer tests a connection that must not.
func TestNamedStatements(t *testing.T) {
	for mode, want := range map[string]int{"": 2, "&default_query_exec_mode=cache_describe": 0} {
		s := open(t, migrated(t)+"&pool_max_conns=1"+mode)
		change := counter.Change{Docs: []counter.Doc{{Name: "r:a", Data: "a", Any: true}}}
		for range 2 {
			need(t, errOf(s.Save(t.Context(), counter.Queue{Name: "q"}, change)))
		}
		got := 0
		err := s.pool.QueryRow(t.Context(), "SELECT count(*) FROM pg_prepared_statements WHERE name <> '' "+
			"AND statement NOT LIKE 'WITH part %'").Scan(&got) // sweeps have names too
		if err != nil || got != want {
			t.Errorf("mode %q: %d named statements, %v, want %d", mode, got, err, want)
		}
	}
}

// TestSessionIsReset resets a session under a Store, as a pooler may that gives its clients the server's own process
// numbers. The next Save is refused, and the one after it has another session.
func TestSessionIsReset(t *testing.T) {
	of := counter.Queue{Name: "q"}
	for _, reset := range []string{"DISCARD ALL", "DEALLOCATE ALL", "RESET ALL"} {
		s := open(t, migrated(t)+"&pool_max_conns=1&default_transaction_isolation=serializable")
		save := func(data string) error {
			return errOf(s.Save(t.Context(), of, counter.Change{Docs: []counter.Doc{{Name: "limit", Data: data, Any: true}}}))
		}
		need(t, save("a"))
		need(t, errOf(s.pool.Exec(t.Context(), reset)))
		if err := save("b"); err == nil || !strings.Contains(err.Error(), "default_query_exec_mode=cache_describe") {
			t.Errorf("after %s: %v", reset, err)
		}
		_, docs, err := s.Load(t.Context(), of, "limit")
		if err = errors.Join(err, save("c")); err != nil || docs[0].Data != "a" {
			t.Errorf("after %s: %+v, %v", reset, docs, err)
		}
	}
}

// TestSilentServer: connections to a server that stops replying while they are made are given up in time.
func TestSilentServer(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	need(t, err)
	defer listener.Close()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { _ = conn.Close() })
			server := pgproto3.NewBackend(conn, conn)
			_, _ = server.ReceiveStartupMessage()
			server.Send(&pgproto3.AuthenticationOk{})
			server.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
			_ = server.Flush()
		}
	}()
	s, err := Open("postgres://"+listener.Addr().String()+"/x?sslmode=disable", &Options{Timeout: 100 * time.Millisecond})
	need(t, err)
	if _, _, err := s.Load(t.Context(), counter.Queue{}); err == nil {
		t.Error("a silent server has replied")
	}
	for began := time.Now(); s.pool.Stat().ConstructingConns() > 0; time.Sleep(time.Millisecond) {
		if time.Since(began) > 10*time.Second {
			t.Error("a connection is still being made")
			break
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
