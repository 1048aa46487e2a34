package inbox

import (
	"context"
	"testing"

	"github.com/strikesmq/strikes/internal/inbox"
	"github.com/strikesmq/strikes/internal/servers"
	"github.com/strikesmq/strikes/internal/servertest"
)

// postgreSQL is the subject of a driver for PostgreSQL.
func postgreSQL(name string, open Open) Subject {
	return Subject{
		Name: name, Open: open, Store: "postgres", Server: servertest.PostgreSQL,
		Durable: durable(servers.StartPostgreSQL, "-c", "fsync=on"),
		Admin:   "postgres",
		Schema:  inbox.PostgreSQLSchema, LongestID: 2000, Strict: true,
		Waiting:   "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'",
		Impatient: "SET LOCAL lock_timeout = '100ms'",
		Slow:      "SELECT pg_sleep(5)",
		Idle:      "SELECT setting FROM pg_settings WHERE name = 'idle_in_transaction_session_timeout'", // in ms
	}
}

// onMariaDB is the subject of a driver for MySQL, on MariaDB.
func onMariaDB(name string, open Open) Subject {
	return Subject{
		Name: name, Open: open, Store: "mysql", Server: servertest.MariaDB,
		Durable: durable(servers.StartMariaDB, "--innodb-flush-log-at-trx-commit=1"),
		Schema:  inbox.MySQLSchema, LongestID: 255,
		Waiting: "SELECT count(*) FROM information_schema.processlist WHERE db = database() AND " +
			"info LIKE 'INSERT INTO strikes_inbox%'",
		Impatient: "SET innodb_lock_wait_timeout = 1",
		Slow:      "DO sleep(5)",
	}
}

// durable starts a server of its own that writes each COMMIT to the disk.
func durable(start func(context.Context, servers.DatabaseOptions) (*servers.Database, error),
	args ...string) func(testing.TB) string {
	return func(t testing.TB) string {
		t.Helper()
		return servertest.Own(t, start, servers.DatabaseOptions{Args: args}).Addr
	}
}
