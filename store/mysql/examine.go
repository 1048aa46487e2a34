package mysql

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/sqlstore"
)

// Examine is that of counter.Store: it asks for the version, the user, the settings that say when a commit is on the
// disk, the clock and the permissions. A missing schema is an error.
func (s *Store) Examine(ctx context.Context) ([]counter.Finding, error) {
	ctx, cancel := s.base.Within(ctx)
	defer cancel()
	var user, database string
	var at int64
	began := time.Now()
	err := s.db.QueryRowContext(ctx, "SELECT current_user(), database(), "+micros).Scan(&user, &database, &at)
	if err != nil {
		return nil, s.base.Failed(err)
	}
	server := sqlstore.Server{Addr: s.base.Addr, User: user,
		Ahead: time.UnixMicro(at).Sub(began.Add(time.Since(began) / 2))}
	settings := map[string]string{}
	err = s.each(ctx, s.db, new(query).add("SHOW VARIABLES WHERE variable_name IN ('version', 'read_only', "+
		"'super_read_only', 'innodb_read_only', 'tx_read_only', 'transaction_read_only', 'innodb_flush_log_at_trx_commit', "+
		"'log_bin', 'sync_binlog')"), func(rows *sql.Rows, _ int) error {
		var name, value string
		err := rows.Scan(&name, &value)
		settings[strings.ToLower(name)] = value
		return err
	})
	if err != nil {
		return nil, s.base.Failed(err)
	}
	server.Release, server.TooOld = releaseOf(settings["version"])
	for _, name := range []string{"read_only", "super_read_only", "innodb_read_only", "tx_read_only",
		"transaction_read_only"} {
		if settings[name] == "ON" {
			server.Primary = "the primary's address"
		}
	}
	if commit := settings["innodb_flush_log_at_trx_commit"]; commit != "1" && commit != "3" {
		server.Volatile = "innodb_flush_log_at_trx_commit is " + commit
		server.Durable = "SET GLOBAL innodb_flush_log_at_trx_commit = 1, and in the server's configuration"
	} else if settings["log_bin"] == "ON" && settings["sync_binlog"] != "1" {
		server.Volatile = "log_bin is on and sync_binlog is " + settings["sync_binlog"]
		server.Durable = "SET GLOBAL sync_binlog = 1, and in the server's configuration"
	}
	if server.Primary == "" { // a read-only server refuses to explain a write
		if server.Denied, err = s.denied(ctx, user, database); err != nil {
			return nil, s.base.Failed(err)
		}
	}
	return server.Findings(), nil
}

// denied returns the grants that the user needs, if it lacks one. EXPLAIN needs the permissions of its statement.
func (s *Store) denied(ctx context.Context, user, database string) (string, error) {
	for _, table := range []string{"strikes_doc", "strikes_member"} {
		for _, statement := range []string{"SELECT * FROM " + table, "UPDATE " + table + " SET expires = 0",
			"INSERT INTO " + table + " SELECT * FROM " + table, "DELETE FROM " + table} {
			_, err := s.db.ExecContext(ctx, "EXPLAIN "+statement)
			if sqlstore.Matches(denied, codeOf(err)) {
				return fmt.Sprintf(grants, "`"+strings.ReplaceAll(database, "`", "``")+"`", quoted(user)), nil
			}
			if err != nil {
				return "", err
			}
		}
	}
	return "", nil
}

// quoted is a user as GRANT reads it.
func quoted(user string) string {
	at := strings.LastIndexByte(user, '@')
	if at < 0 {
		return "'" + user + "'"
	}
	return "'" + user[:at] + "'@'" + user[at+1:] + "'"
}

// releaseOf reads a version such as 10.11.6-MariaDB or 8.0.35. TooOld is the oldest release on which the queries work,
// if the server is older.
func releaseOf(version string) (release, tooOld string) {
	var major, minor int
	_, _ = fmt.Sscanf(version, "%d.%d", &major, &minor)
	if strings.Contains(version, "MariaDB") {
		if major < 10 || major == 10 && minor < 6 {
			tooOld = "MariaDB 10.6"
		}
		return "MariaDB " + version, tooOld
	}
	if major < 8 {
		tooOld = "MySQL 8.0"
	}
	return "MySQL " + version, tooOld
}
